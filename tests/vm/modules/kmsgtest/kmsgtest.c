// SPDX-License-Identifier: GPL-2.0
/*
 * kmsgtest: says things on the kernel log with facility kernel, and has a
 * file whose readers hang.
 *
 *   /sys/module/kmsgtest/parameters/level   3 is KERN_ERR
 *   /sys/module/kmsgtest/parameters/say     text: printed at that level
 *   /sys/module/kmsgtest/parameters/flood   N: that many KERN_INFO lines
 *   /sys/module/kmsgtest/parameters/dev     "BDF|text": printed by dev_err()
 *                                           of that PCI device, so that the
 *                                           record carries DEVICE=+pci:BDF
 *   /sys/kernel/kmsgtest/text               what file "hang" says
 *   /sys/kernel/kmsgtest/hold               1: readers of "hang" stay in D
 *                                           state until it is 0
 *   /sys/kernel/kmsgtest/hang               for mount --bind over a sysfs file
 */
#include <linux/delay.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sysfs.h>

static int level = 3;
module_param(level, int, 0644);

static void print_at_level(const char *text, int len)
{
	switch (level) {
	case 0: pr_emerg("%.*s\n", len, text); break;
	case 1: pr_alert("%.*s\n", len, text); break;
	case 2: pr_crit("%.*s\n", len, text); break;
	case 3: pr_err("%.*s\n", len, text); break;
	case 4: pr_warn("%.*s\n", len, text); break;
	case 5: pr_notice("%.*s\n", len, text); break;
	default: pr_info("%.*s\n", len, text); break;
	}
}

static int say_set(const char *val, const struct kernel_param *kp)
{
	print_at_level(val, (int)strcspn(val, "\n"));
	return 0;
}
static const struct kernel_param_ops say_ops = { .set = say_set };
module_param_cb(say, &say_ops, NULL, 0200);

static int flood_set(const char *val, const struct kernel_param *kp)
{
	unsigned int n, i;
	int err = kstrtouint(val, 10, &n);

	if (err)
		return err;
	for (i = 0; i < n; i++)
		pr_info("kmsgtest: flood line %u of %u, padded to about the length of a real one\n", i, n);
	return 0;
}
static const struct kernel_param_ops flood_ops = { .set = flood_set };
module_param_cb(flood, &flood_ops, NULL, 0200);

static int dev_set(const char *val, const struct kernel_param *kp)
{
	const char *text = strchr(val, '|');
	struct pci_dev *pdev = NULL;

	if (!text)
		return -EINVAL;
	for_each_pci_dev(pdev) {
		const char *name = pci_name(pdev);

		if (strlen(name) == text - val && !strncmp(name, val, text - val)) {
			dev_err(&pdev->dev, "%.*s\n", (int)strcspn(text + 1, "\n"), text + 1);
			pci_dev_put(pdev);
			return 0;
		}
	}
	return -ENODEV;
}
static const struct kernel_param_ops dev_ops = { .set = dev_set };
module_param_cb(dev, &dev_ops, NULL, 0200);

static char text[128] = "4: ACTIVE\n";
static int hold;

static ssize_t text_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%s", text);
}

static ssize_t text_store(struct kobject *k, struct kobj_attribute *a, const char *buf, size_t n)
{
	strscpy(text, buf, sizeof(text));
	return n;
}

static ssize_t hold_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(hold));
}

static ssize_t hold_store(struct kobject *k, struct kobj_attribute *a, const char *buf, size_t n)
{
	int v, err = kstrtoint(buf, 10, &v);

	if (err)
		return err;
	WRITE_ONCE(hold, v);
	return n;
}

static ssize_t hang_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	/* msleep(): TASK_UNINTERRUPTIBLE, so not even SIGKILL ends it. */
	while (READ_ONCE(hold))
		msleep(50);
	return sysfs_emit(buf, "%s", text);
}

static struct kobj_attribute text_attr = __ATTR_RW(text);
static struct kobj_attribute hold_attr = __ATTR_RW(hold);
static struct kobj_attribute hang_attr = __ATTR_RO(hang);
static struct attribute *attrs[] = {
	&text_attr.attr, &hold_attr.attr, &hang_attr.attr, NULL
};
static const struct attribute_group group = { .attrs = attrs };
static struct kobject *dir;

static int __init kmsgtest_init(void)
{
	int err;

	dir = kobject_create_and_add("kmsgtest", kernel_kobj);
	if (!dir)
		return -ENOMEM;
	err = sysfs_create_group(dir, &group);
	if (err)
		kobject_put(dir);
	return err;
}

static void __exit kmsgtest_exit(void)
{
	WRITE_ONCE(hold, 0);
	kobject_put(dir);
}

module_init(kmsgtest_init);
module_exit(kmsgtest_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("kernel log lines and a hanging file, for tests");
