"""Looks at the agent's pages with Chromium. Called by tests/page.rs with a list of agents that run:
name, address, and the tree that each reads."""

import json
import os
import pathlib
import sys
import time

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SHOTS = pathlib.Path(os.environ["PAGE_SHOTS"])
# What CSP forbids, and a page that asks for nothing has no use for.
POLICY = ("default-src 'none'", "base-uri 'none'", "form-action 'none'")
TABBABLE = "a[href], [tabindex='0']"
WRONG: list[str] = []


def check(ok, what):
    if not ok:
        WRONG.append(what)
        print("WRONG:", what, flush=True)


class Window:
    """A page in a browser context of its own, which notes all that it asks for and complains of."""

    def __init__(self, browser, name, scheme="light", width=1280, height=900, scripts=True):
        self.name = f"{name} ({scheme}, {width} px)"
        self.context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            java_script_enabled=scripts,
            device_scale_factor=1 if width > 400 else 2,
        )
        self.page = self.context.new_page()
        self.asked, self.said = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def open(self, url):
        answer = self.page.goto(url, wait_until="load")
        check(answer.status == 200, f"{self.name}: {url} answers {answer.status}")
        self.headers = answer.headers
        return self.page

    def end(self, url):
        """Nothing was said, and nothing was asked for but the page."""
        others = [asked for asked in self.asked if not asked.startswith((url, "data:"))]
        check(not others, f"{self.name}: asked for {others}")
        check(len(self.asked) == 1, f"{self.name}: {len(self.asked)} requests: {self.asked}")
        check(not self.said, f"{self.name}: console: {self.said}")


def accessible(window):
    """axe-core has nothing to say."""
    found = Axe().run(window.page).response["violations"]
    for violation in found:
        nodes = [node["html"][:120] for node in violation["nodes"][:3]]
        check(False, f"{window.name}: axe: {violation['id']} ({violation['impact']}): {nodes}")
    return len(found)


def unclipped(window):
    """On a desk's screen no table has to be scrolled."""
    clipped = window.page.evaluate(
        """() => [...document.querySelectorAll('.scroll')]
            .filter(e => e.scrollWidth > e.clientWidth + 1)
            .map(e => [e.getAttribute('aria-labelledby'), e.scrollWidth, e.clientWidth])"""
    )
    check(not clipped, f"{window.name}: clipped: {clipped}")


def says_what_to_do(window):
    """What a finding asks for stands above the fold."""
    page = window.page
    if page.locator(".banner .fix").count() == 0:
        check("is unready" not in page.inner_text("h1"), f"{window.name}: no remedy at the top")
        return
    box = page.locator(".banner .fix").first.bounding_box()
    height = page.viewport_size["height"]
    check(box and box["y"] + box["height"] < height, f"{window.name}: the remedy is at {box}")


def fits(window):
    """No part of the page is wider than the window."""
    wide = window.page.evaluate(
        """() => {
            const width = document.documentElement.clientWidth;
            const inScroll = e => e.closest('.scroll') !== null;
            const wide = [...document.querySelectorAll('body *')].filter(e =>
                !inScroll(e) && e.getBoundingClientRect().right > width + 1);
            return [document.documentElement.scrollWidth - width,
                    wide.slice(0, 3).map(e => e.outerHTML.slice(0, 100))];
        }"""
    )
    check(wide[0] <= 0 and not wide[1], f"{window.name}: too wide: {wide}")


def structure(window):
    """One h1, headings in order, every target of a link in the page is there, ids are unique."""
    told = window.page.evaluate(
        """() => ({
            heads: [...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1]),
            lost: [...document.querySelectorAll('a[href^="#"]')].map(a => a.hash.slice(1))
                .filter(id => !document.getElementById(id)),
            ids: [...document.querySelectorAll('[id]')].map(e => e.id),
            scripts: document.scripts.length,
            images: document.images.length,
            title: document.title,
        })"""
    )
    heads = told["heads"]
    check(heads.count(1) == 1 and heads[0] == 1, f"{window.name}: headings {heads}")
    jumps = [pair for pair in zip(heads, heads[1:]) if pair[1] > pair[0] + 1]
    check(not jumps, f"{window.name}: headings jump {jumps}")
    check(not told["lost"], f"{window.name}: links to nowhere {told['lost']}")
    check(len(set(told["ids"])) == len(told["ids"]), f"{window.name}: ids repeat")
    check(told["scripts"] == 0 and told["images"] == 0, f"{window.name}: {told}")
    check("owned" not in told["title"], f"{window.name}: title {told['title']}")


def keyboard(window):
    """Tab reaches every link and scroll region in the order of the document, and it shows."""
    page = window.page
    want = page.evaluate(
        f"() => [...document.querySelectorAll(\"{TABBABLE}\")].map((e, n) => (e.dataset.n = n, n))"
    )
    seen, faint = [], []
    for _ in want:
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const e = document.activeElement, style = getComputedStyle(e);
                return [e.dataset.n, style.outlineStyle, parseFloat(style.outlineWidth)];
            }"""
        )
        seen.append(None if at[0] is None else int(at[0]))
        if at[1] == "none" or at[2] < 2:
            faint.append(at[0])
    check(seen == want, f"{window.name}: Tab goes {seen}, not {want}")
    check(not faint, f"{window.name}: no focus to be seen on {faint}")


def scrolls(window):
    """A table that is wider than the window moves by the arrow keys."""
    page = window.page
    region = page.locator(".scroll", has=page.locator("#port-table"))
    region.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "() => document.querySelector('.scroll[aria-labelledby=port-table]').scrollLeft > 20"
    )


def shot(window, name):
    window.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def look(browser, case):
    name, url = case["name"], case["url"]
    for scheme in ("light", "dark"):
        with Window(browser, name, scheme) as window:
            window.open(url + "/paused")
            policy = window.headers.get("content-security-policy", "")
            check(all(part in policy for part in POLICY), f"{name}: policy {policy}")
            check("refresh" not in window.headers, f"{name}: a paused page comes again")
            structure(window)
            fits(window)
            accessible(window)
            shot(window, f"{name}-{scheme}")
            if scheme == "light":
                keyboard(window)
            window.end(url)
    with Window(browser, name, "light", 1440, 900) as window:
        window.open(url + "/paused")
        fits(window)
        unclipped(window)
        says_what_to_do(window)
        window.end(url)
    with Window(browser, name, "light", 360, 740) as window:
        window.open(url + "/paused")
        fits(window)
        accessible(window)
        shot(window, f"{name}-narrow")
        if window.page.locator("#ports").count():
            scrolls(window)
        window.end(url)
    with Window(browser, name, "dark", 768, 900, scripts=False) as window:
        page = window.open(url + "/paused")
        check(page.locator("h1").is_visible(), f"{name}: nothing without scripts")
        shot(window, f"{name}-noscript")
        window.end(url)
    print(f"{name}: looked at", flush=True)


def runbooks(browser, case):
    """The list of runbooks and one with a table, as they are read in the night."""
    url = case["url"]
    for path in ("/runbooks", "/runbooks/SelvageXidFatal"):
        name = path.rsplit("/", 1)[1]
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
            with Window(browser, name, scheme, width) as window:
                page = window.open(url + path)
                policy = window.headers.get("content-security-policy", "")
                check(all(part in policy for part in POLICY), f"{name}: policy {policy}")
                structure(window)
                fits(window)
                accessible(window)
                shot(window, f"{name}-{scheme}-{width}")
                if width == 360:
                    lost = page.locator("a[href^='/runbooks/']").evaluate_all(
                        "all => all.filter(a => !a.textContent).length"
                    )
                    check(lost == 0, f"{name}: links without a text")
                    keyboard(window)
                window.end(url)


def markup_stays_text(browser, case):
    """A pod whose name is markup shows by its name, as does a line of its log."""
    with Window(browser, case["name"]) as window:
        page = window.open(case["url"] + "/paused")
        text = page.inner_text("body")
        for part in ("<script>document.title='owned'</script>", "fell back to TCP", "<b>bus</b>"):
            check(part in text, f"{case['name']}: {part!r} is not to be read")
        window.end(case["url"])


def links_lead_somewhere(browser, case):
    """Every address that a page names is answered."""
    with Window(browser, case["name"]) as window:
        page = window.open(case["url"] + "/paused")
        paths = page.evaluate(
            "() => [...new Set([...document.querySelectorAll('a[href^=\"/\"]')].map(a => a.href))]"
        )
        for path in paths:
            answer = window.context.request.get(path)
            check(answer.status == 200, f"{path}: {answer.status}")


def comes_again(browser, case):
    """The page shows a rail that falls without anybody's doing, and keeps its place."""
    tree = pathlib.Path(case["tree"])
    with Window(browser, case["name"], height=500) as window:
        page = window.open(case["url"] + "/")
        check(int(window.headers["refresh"]) in (5, 10), f"refresh {window.headers}")
        check("is ready" in page.inner_text("h1"), page.inner_text("h1"))
        page.evaluate("() => window.scrollTo({top: 400, behavior: 'instant'})")
        port = tree / "sys/class/infiniband/mlx5_2/ports/1"
        (port / "phys_state").write_text("3: Disabled\n")
        (port / "state").write_text("1: DOWN\n")
        title = ""
        end = time.monotonic() + 90
        while time.monotonic() < end:
            page.wait_for_timeout(500)
            try:
                title = page.title()
            except Exception:  # between two documents
                continue
            if title.startswith("unready"):
                break
        check(title.startswith("unready"), f"the page stays {title!r}")
        page.wait_for_load_state("load")
        check("LinkDown" in page.inner_text("main"), "the page does not say why")
        # The browser goes back to the place some time after the load.
        top = page.wait_for_function("() => window.scrollY > 300 && window.scrollY").json_value()
        # The browser holds on to what is read, which what is new above it pushes down.
        check(300 < top < 800, f"the page comes again at {top}, not where it was read")
        check(not window.said, f"console: {window.said}")


def main():
    cases = json.loads(sys.argv[1])
    by_name = {case["name"]: case for case in cases}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ["PAGE_CHROMIUM"], args=["--no-sandbox"]
        )
        only = os.environ.get("PAGE_CASES", "").split()
        for case in cases:
            if not only or case["name"] in only:
                look(browser, case)
        if not only or "runbooks" in only:
            runbooks(browser, cases[0])
        if only:
            sys.exit(f"{len(WRONG)} things are wrong" if WRONG else 0)
        markup_stays_text(browser, by_name["unready"])
        links_lead_somewhere(browser, by_name["unready"])
        comes_again(browser, by_name["ready"])
        browser.close()
    print(f"pictures in {SHOTS}")
    sys.exit(f"{len(WRONG)} things are wrong" if WRONG else 0)


main()
