// SPDX-License-Identifier: GPL-2.0
/*
 * testnic: a physical function with virtual ones, as far as rtnetlink tells of them. A bus of its
 * own says how many there are (dev_num_vf()), where PCI would: device/sriov_numvfs is written as
 * with PCI, `ip link set testnicN vf M state ...` sets their link states.
 */
#include <linux/device.h>
#include <linux/if_link.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include "testnic.h"

struct testnic_pf {
	struct device dev;
	int num;
	u8 link_state[TESTNIC_VFS];
};
#define to_pf(d) container_of(d, struct testnic_pf, dev)

static int testnic_num_vf(struct device *dev)
{
	return READ_ONCE(to_pf(dev)->num);
}

static struct bus_type testnic_bus = {
	.name = "testnic",
	.num_vf = testnic_num_vf,
};

static ssize_t sriov_numvfs_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", to_pf(dev)->num);
}

static ssize_t sriov_numvfs_store(struct device *dev, struct device_attribute *attr,
				  const char *buf, size_t len)
{
	struct testnic_pf *pf = to_pf(dev);
	int num;

	if (kstrtoint(buf, 10, &num) || num < 0 || num > TESTNIC_VFS)
		return -EINVAL;
	/* rtnl: an answer is sized by the number that it is filled by. */
	rtnl_lock();
	memset(pf->link_state, IFLA_VF_LINK_STATE_AUTO, sizeof(pf->link_state));
	pf->num = num;
	rtnl_unlock();
	return len;
}
static DEVICE_ATTR_RW(sriov_numvfs);

static struct attribute *testnic_pf_attrs[] = { &dev_attr_sriov_numvfs.attr, NULL };
ATTRIBUTE_GROUPS(testnic_pf);

static void testnic_pf_release(struct device *dev)
{
	kfree(to_pf(dev));
}

/* Of one without a PCI function, which always has such a parent. */
static struct testnic_pf *pf_of(struct net_device *dev)
{
	struct device *parent = dev->dev.parent;

	return parent && parent->bus == &testnic_bus ? to_pf(parent) : NULL;
}

int testnic_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info)
{
	struct testnic_pf *pf = pf_of(dev);

	if (!pf || vf >= pf->num)
		return -EINVAL;
	info->vf = vf;
	info->linkstate = pf->link_state[vf];
	return 0;
}

int testnic_set_vf_link_state(struct net_device *dev, int vf, int state)
{
	struct testnic_pf *pf = pf_of(dev);

	if (!pf || vf >= pf->num)
		return -EINVAL;
	pf->link_state[vf] = state;
	return 0;
}

struct device *testnic_pf_add(int index)
{
	struct testnic_pf *pf = kzalloc(sizeof(*pf), GFP_KERNEL);
	int err;

	if (!pf)
		return ERR_PTR(-ENOMEM);
	pf->dev.bus = &testnic_bus;
	pf->dev.groups = testnic_pf_groups;
	pf->dev.release = testnic_pf_release;
	err = dev_set_name(&pf->dev, "testnic-pf%d", index);
	if (!err)
		err = device_register(&pf->dev);
	if (err) {
		put_device(&pf->dev);
		return ERR_PTR(err);
	}
	return &pf->dev;
}

void testnic_pf_remove(struct device *dev)
{
	if (dev)
		device_unregister(dev);
}

int testnic_bus_add(void)
{
	return bus_register(&testnic_bus);
}

void testnic_bus_remove(void)
{
	bus_unregister(&testnic_bus);
}
