// SPDX-License-Identifier: GPL-2.0
/*
 * testnic: an Ethernet device whose health is set by a test.
 *
 * Carrier, speed, driver name, ethtool statistics (mlx5's names), pause and
 * PFC configuration are written through debugfs:
 *
 *   /sys/kernel/debug/testnic/<netdev>/
 *     carrier   0 or 1
 *     speed     Mb/s, 400000 for NDR
 *     driver    what ethtool -i says, e.g. mlx5_core
 *     pause     "rx tx", global pause, 0 or 1 each
 *     pfc_en    bitmap of lossless priorities; changes the list of statistics
 *     stat      write "NAME VALUE" (set), "NAME +N" (add), "NAME new"
 *               (append to the list), "NAME del"; read lists all
 *
 * With vfs=1 they hang under functions that can have virtual ones: see vf.c.
 *
 * Devices are joined in pairs (0-1, 2-3, ...): what one sends, the other
 * receives, as with veth, so that rdma_rxe on both ends can talk.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/debugfs.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <net/dcbnl.h>
#include "testnic.h"

static int count = 2;
module_param(count, int, 0444);
MODULE_PARM_DESC(count, "number of devices (at most 32)");

static char *pci[TESTNIC_MAX];
static int npci;
module_param_array(pci, charp, &npci, 0444);
MODULE_PARM_DESC(pci, "PCI addresses to hang the devices under, in order");

static bool vfs;
module_param(vfs, bool, 0444);
MODULE_PARM_DESC(vfs, "hang those without a PCI address under functions of the module's own bus");

static struct net_device *nics[TESTNIC_MAX];
static struct device *functions[TESTNIC_MAX];
static struct pci_dev *parents[TESTNIC_MAX];
static struct dentry *root;

/* ---- data path ---- */

static netdev_tx_t testnic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct testnic *nic = netdev_priv(dev);
	struct net_device *peer = READ_ONCE(nics[nic->index ^ 1]);
	unsigned int len = skb->len;

	/* dev_forward_skb() refuses a peer that is not up. */
	if (!peer || peer == dev || !netif_carrier_ok(peer)) {
		kfree_skb(skb);
		dev->stats.tx_dropped++;
		return NETDEV_TX_OK;
	}
	skb_tx_timestamp(skb);
	if (dev_forward_skb(peer, skb) == NET_RX_SUCCESS) {
		dev->stats.tx_packets++;
		dev->stats.tx_bytes += len;
		peer->stats.rx_packets++;
		peer->stats.rx_bytes += len;
	} else {
		dev->stats.tx_dropped++;
	}
	return NETDEV_TX_OK;
}

static int testnic_open(struct net_device *dev)
{
	netif_start_queue(dev);
	return 0;
}

static int testnic_stop(struct net_device *dev)
{
	netif_stop_queue(dev);
	return 0;
}

static const struct net_device_ops testnic_ops = {
	.ndo_open = testnic_open,
	.ndo_stop = testnic_stop,
	.ndo_start_xmit = testnic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_get_vf_config = testnic_get_vf_config,
	.ndo_set_vf_link_state = testnic_set_vf_link_state,
};

/* ---- ethtool ---- */

static void testnic_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct testnic *nic = netdev_priv(dev);

	strscpy(info->driver, nic->driver, sizeof(info->driver));
	strscpy(info->version, "test", sizeof(info->version));
	strscpy(info->fw_version, "28.41.1000 (TEST0000000001)", sizeof(info->fw_version));
	if (dev->dev.parent)
		strscpy(info->bus_info, dev_name(dev->dev.parent), sizeof(info->bus_info));
}

static int testnic_link_ksettings(struct net_device *dev,
				  struct ethtool_link_ksettings *cmd)
{
	struct testnic *nic = netdev_priv(dev);

	cmd->base.speed = netif_carrier_ok(dev) ? nic->speed : SPEED_UNKNOWN;
	cmd->base.duplex = netif_carrier_ok(dev) ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	cmd->base.port = PORT_OTHER;
	return 0;
}

static int testnic_sset_count(struct net_device *dev, int sset)
{
	struct testnic *nic = netdev_priv(dev);
	int i, n = 0;

	if (sset != ETH_SS_STATS)
		return -EOPNOTSUPP;
	for (i = 0; i < nic->nstats; i++)
		n += testnic_visible(nic, &nic->stats[i]);
	return n;
}

static void testnic_strings(struct net_device *dev, u32 sset, u8 *buf)
{
	struct testnic *nic = netdev_priv(dev);
	int i;

	if (sset != ETH_SS_STATS)
		return;
	for (i = 0; i < nic->nstats; i++) {
		if (!testnic_visible(nic, &nic->stats[i]))
			continue;
		memcpy(buf, nic->stats[i].name, ETH_GSTRING_LEN);
		buf += ETH_GSTRING_LEN;
	}
}

static void testnic_stats(struct net_device *dev, struct ethtool_stats *s, u64 *data)
{
	struct testnic *nic = netdev_priv(dev);
	int i;

	for (i = 0; i < nic->nstats; i++)
		if (testnic_visible(nic, &nic->stats[i]))
			*data++ = nic->stats[i].value;
}

static void testnic_pauseparam(struct net_device *dev, struct ethtool_pauseparam *p)
{
	struct testnic *nic = netdev_priv(dev);

	p->rx_pause = nic->rx_pause;
	p->tx_pause = nic->tx_pause;
}

static void testnic_pause_stats(struct net_device *dev, struct ethtool_pause_stats *s)
{
	struct testnic *nic = netdev_priv(dev);

	s->rx_pause_frames = testnic_stat_value(nic, "rx_pause_ctrl_phy");
	s->tx_pause_frames = testnic_stat_value(nic, "tx_pause_ctrl_phy");
}

static const struct ethtool_ops testnic_ethtool_ops = {
	.get_drvinfo = testnic_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = testnic_link_ksettings,
	.get_sset_count = testnic_sset_count,
	.get_strings = testnic_strings,
	.get_ethtool_stats = testnic_stats,
	.get_pauseparam = testnic_pauseparam,
	.get_pause_stats = testnic_pause_stats,
};

/* ---- DCB: enough for DCB_CMD_IEEE_GET ---- */

static int testnic_getets(struct net_device *dev, struct ieee_ets *ets)
{
	int i;

	ets->ets_cap = 8;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		ets->prio_tc[i] = i;
		ets->tc_tsa[i] = IEEE_8021QAZ_TSA_STRICT;
	}
	return 0;
}

static int testnic_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct testnic *nic = netdev_priv(dev);
	char name[ETH_GSTRING_LEN];
	int i;

	pfc->pfc_cap = 8;
	pfc->pfc_en = nic->pfc_en;
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "tx_prio%d_pause", i);
		pfc->requests[i] = testnic_stat_value(nic, name);
		snprintf(name, sizeof(name), "rx_prio%d_pause", i);
		pfc->indications[i] = testnic_stat_value(nic, name);
	}
	return 0;
}

static int testnic_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct testnic *nic = netdev_priv(dev);

	nic->pfc_en = pfc->pfc_en;
	return 0;
}

static u8 testnic_getdcbx(struct net_device *dev)
{
	return DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
}

static const struct dcbnl_rtnl_ops testnic_dcbnl_ops = {
	.ieee_getets = testnic_getets,
	.ieee_getpfc = testnic_getpfc,
	.ieee_setpfc = testnic_setpfc,
	.getdcbx = testnic_getdcbx,
};

/* ---- life ---- */

static void testnic_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &testnic_ops;
	dev->ethtool_ops = &testnic_ethtool_ops;
	dev->dcbnl_ops = &testnic_dcbnl_ops;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = 9978;
	dev->mtu = 4200;
	dev->needs_free_netdev = false;
}

static struct pci_dev *testnic_find_pci(const char *addr)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev)
		if (!strcmp(pci_name(pdev), addr))
			return pdev; /* with the reference of the walk */
	return NULL;
}

static int testnic_add(int index)
{
	struct net_device *dev;
	struct testnic *nic;
	u8 mac[ETH_ALEN] = { 0x02, 0x5e, 0x1f, 0x00, 0x00, (u8)(index + 1) };
	int err;

	dev = alloc_netdev(sizeof(*nic), "testnic%d", NET_NAME_ENUM, testnic_setup);
	if (!dev)
		return -ENOMEM;
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->index = index;
	nic->speed = 400000;
	strscpy(nic->driver, "mlx5_core", sizeof(nic->driver));
	mutex_init(&nic->lock);
	err = testnic_default_stats(nic);
	if (err)
		goto free;
	eth_hw_addr_set(dev, mac);
	if (index < npci) {
		parents[index] = testnic_find_pci(pci[index]);
		if (!parents[index]) {
			pr_err("testnic: no PCI device %s\n", pci[index]);
			err = -ENODEV;
			goto free;
		}
		SET_NETDEV_DEV(dev, &parents[index]->dev);
	} else if (vfs) {
		functions[index] = testnic_pf_add(index);
		if (IS_ERR(functions[index])) {
			err = PTR_ERR(functions[index]);
			functions[index] = NULL;
			goto free;
		}
		SET_NETDEV_DEV(dev, functions[index]);
	}
	err = register_netdev(dev);
	if (err)
		goto put;
	netif_carrier_on(dev);
	nics[index] = dev;
	testnic_debugfs(nic, root);
	return 0;
put:
	pci_dev_put(parents[index]);
	testnic_pf_remove(functions[index]);
free:
	kvfree(nic->stats);
	free_netdev(dev);
	return err;
}

static void testnic_remove_all(void)
{
	int i;

	debugfs_remove_recursive(root);
	for (i = 0; i < count; i++) {
		struct net_device *dev = nics[i];
		struct testnic *nic;

		if (!dev)
			continue;
		nic = netdev_priv(dev);
		/* The peer must stop sending here first. */
		WRITE_ONCE(nics[i], NULL);
		synchronize_net();
		unregister_netdev(dev);
		kvfree(nic->stats);
		free_netdev(dev);
		pci_dev_put(parents[i]);
		testnic_pf_remove(functions[i]);
	}
	testnic_bus_remove();
}

static int __init testnic_init(void)
{
	int i, err;

	if (count < 1 || count > TESTNIC_MAX)
		return -EINVAL;
	err = testnic_bus_add();
	if (err)
		return err;
	root = debugfs_create_dir("testnic", NULL);
	for (i = 0; i < count; i++) {
		err = testnic_add(i);
		if (err) {
			testnic_remove_all();
			return err;
		}
	}
	return 0;
}

static void __exit testnic_exit(void)
{
	testnic_remove_all();
}

module_init(testnic_init);
module_exit(testnic_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Ethernet device whose health a test sets");
