// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A module with the name of nvidia-peermem. With register=1 it also makes
 * /sys/kernel/mm/memory_peers/nv_mem/version, which the true one has where
 * ib_core knows peer memory (stock ib_core does not, and the true module then
 * refuses to load). Linux 6.1 only: 6.12 no longer exports the parent.
 */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/sysfs.h>
#include <linux/version.h>

#define VERSION_TEXT "550.54.15"

static bool register_client;
module_param_named(register, register_client, bool, 0444);

static struct kobject *peers, *client;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
static ssize_t version_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, VERSION_TEXT "\n");
}
static struct kobj_attribute version_attr = __ATTR_RO(version);

static int make_client(void)
{
	peers = kobject_create_and_add("memory_peers", mm_kobj);
	client = peers ? kobject_create_and_add("nv_mem", peers) : NULL;
	return client ? sysfs_create_file(client, &version_attr.attr) : -ENOMEM;
}
#else
static int make_client(void)
{
	return -EINVAL;
}
#endif

static int __init stub_init(void)
{
	int err = register_client ? make_client() : 0;

	if (err) {
		kobject_put(client);
		kobject_put(peers);
	}
	return err;
}

static void __exit stub_exit(void)
{
	kobject_put(client);
	kobject_put(peers);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(VERSION_TEXT);
MODULE_DESCRIPTION("stand-in for tests, no peer memory client");
