// SPDX-License-Identifier: GPL-2.0
/*
 * testpci: lends a PCI function of the emulator another identity and link, by
 * answering for it where the kernel reads its configuration space. After
 * remove and rescan the kernel itself believes in an H100 or a ConnectX-7.
 *
 *   insmod testpci.ko fake=0000:01:00.0=15b3:1021:020700,...
 *     vendor:device:class, hex
 *   /sys/module/testpci/parameters/cap    "BDF=SPEED:WIDTH" the best it can do
 *   /sys/module/testpci/parameters/link   "BDF=SPEED:WIDTH" its link now
 *     SPEED as in the Link Capabilities register: 1 is 2.5 GT/s, 2 is 5; the
 *     emulator's card has a version 1 capability, which knows no more
 *   /sys/module/testpci/parameters/dead   "BDF=1": all of it reads ones, as a
 *     device that fell off the bus; "BDF=0": it answers again
 */
#include <linux/module.h>
#include <linux/pci.h>

#define MAX_FAKES 8

struct fake {
	struct pci_bus *bus;
	struct pci_ops *orig;
	unsigned int devfn;
	int pcie_cap;
	u16 vendor, device;
	u32 class;
	u8 cap_speed, cap_width, now_speed, now_width;
	bool dead;
	char addr[16];
};

static struct fake fakes[MAX_FAKES];
static int nfakes;
static char *fake[MAX_FAKES];
static int nfake;
module_param_array(fake, charp, &nfake, 0444);

static struct fake *of_bus(struct pci_bus *bus)
{
	int i;

	for (i = 0; i < nfakes; i++)
		if (fakes[i].bus == bus)
			return &fakes[i];
	return NULL;
}

/* One aligned word of the function's configuration space, with the lies in. */
static u32 lie(struct fake *f, int where, u32 val)
{
	int cap = f->pcie_cap;

	if (where == PCI_VENDOR_ID)
		return f->vendor | (u32)f->device << 16;
	if (where == PCI_CLASS_REVISION)
		return f->class << 8 | (val & 0xff);
	if (where == cap + PCI_EXP_LNKCAP && f->cap_speed)
		return (val & ~(u32)(PCI_EXP_LNKCAP_SLS | PCI_EXP_LNKCAP_MLW)) |
		       f->cap_speed | (u32)f->cap_width << 4;
	/* Link Control in the lower half, Link Status in the upper. */
	if (where == cap + PCI_EXP_LNKCTL && f->now_speed)
		return (val & ~((u32)(PCI_EXP_LNKSTA_CLS | PCI_EXP_LNKSTA_NLW) << 16)) |
		       ((u32)f->now_speed | (u32)f->now_width << 4) << 16;
	return val;
}

static int fake_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *val)
{
	struct fake *f = of_bus(bus);
	u32 word;
	int rc;

	if (devfn != f->devfn)
		return f->orig->read(bus, devfn, where, size, val);
	if (f->dead) {
		*val = size == 4 ? ~0u : (1u << (8 * size)) - 1;
		return PCIBIOS_SUCCESSFUL;
	}
	rc = f->orig->read(bus, devfn, where & ~3, 4, &word);
	if (rc)
		return rc;
	word = lie(f, where & ~3, word) >> (8 * (where & 3));
	*val = size == 4 ? word : word & ((1u << (8 * size)) - 1);
	return PCIBIOS_SUCCESSFUL;
}

static int fake_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 val)
{
	return of_bus(bus)->orig->write(bus, devfn, where, size, val);
}

static struct pci_ops fake_ops = { .read = fake_read, .write = fake_write };

static struct fake *by_addr(const char *text, int len)
{
	int i;

	for (i = 0; i < nfakes; i++)
		if (strlen(fakes[i].addr) == len && !strncmp(fakes[i].addr, text, len))
			return &fakes[i];
	return NULL;
}

/* "BDF=A[:B]" */
static struct fake *parse(const char *val, unsigned int *a, unsigned int *b)
{
	const char *eq = strchr(val, '=');
	struct fake *f = eq ? by_addr(val, eq - val) : NULL;

	*b = 0;
	return f && sscanf(eq + 1, "%u:%u", a, b) >= 1 ? f : NULL;
}

static int cap_set(const char *val, const struct kernel_param *kp)
{
	unsigned int speed, width;
	struct fake *f = parse(val, &speed, &width);

	if (!f)
		return -EINVAL;
	f->cap_speed = speed;
	f->cap_width = width;
	return 0;
}

static int link_set(const char *val, const struct kernel_param *kp)
{
	unsigned int speed, width;
	struct fake *f = parse(val, &speed, &width);

	if (!f)
		return -EINVAL;
	f->now_speed = speed;
	f->now_width = width;
	return 0;
}

static int dead_set(const char *val, const struct kernel_param *kp)
{
	unsigned int on, unused;
	struct fake *f = parse(val, &on, &unused);

	if (!f)
		return -EINVAL;
	f->dead = on;
	return 0;
}

static const struct kernel_param_ops cap_ops = { .set = cap_set };
static const struct kernel_param_ops link_ops = { .set = link_set };
static const struct kernel_param_ops dead_ops = { .set = dead_set };
module_param_cb(cap, &cap_ops, NULL, 0200);
module_param_cb(link, &link_ops, NULL, 0200);
module_param_cb(dead, &dead_ops, NULL, 0200);

static int add(const char *text)
{
	unsigned int domain, bus, slot, func, vendor, device, class;
	struct fake *f = &fakes[nfakes];
	struct pci_dev *pdev;

	if (sscanf(text, "%x:%x:%x.%x=%x:%x:%x", &domain, &bus, &slot, &func, &vendor, &device,
		   &class) != 7)
		return -EINVAL;
	pdev = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
	if (!pdev)
		return -ENODEV;
	strscpy(f->addr, pci_name(pdev), sizeof(f->addr));
	f->bus = pdev->bus;
	f->devfn = pdev->devfn;
	f->pcie_cap = pdev->pcie_cap;
	f->vendor = vendor;
	f->device = device;
	f->class = class;
	f->cap_speed = f->now_speed = 2;
	f->cap_width = f->now_width = 16;
	pci_dev_put(pdev);
	if (of_bus(f->bus)) /* one function a bus: each sits behind its own root port */
		return -EBUSY;
	nfakes++;
	f->orig = pci_bus_set_ops(f->bus, &fake_ops);
	return 0;
}

static void restore(void)
{
	int i;

	for (i = 0; i < nfakes; i++)
		pci_bus_set_ops(fakes[i].bus, fakes[i].orig);
}

static int __init testpci_init(void)
{
	int i, err;

	for (i = 0; i < nfake; i++) {
		err = add(fake[i]);
		if (err) {
			pr_err("testpci: cannot fake %s: %d\n", fake[i], err);
			restore();
			return err;
		}
	}
	return 0;
}

static void __exit testpci_exit(void)
{
	restore();
}

module_init(testpci_init);
module_exit(testpci_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("another identity for a PCI function, for tests");
