// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A module with the name and the /proc files of NVIDIA's open GPU driver, and
 * nothing of its function: for tests of what is loaded.
 * gpus=0000:17:00.0,... makes /proc/driver/nvidia/gpus/<addr>/information, and
 * binds the functions of vendor 10de that are at these addresses. As with the
 * real driver, unbinding one removes its directory.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define VERSION_TEXT "550.54.15"

static char *gpus[16];
static int ngpus;
module_param_array(gpus, charp, &ngpus, 0444);

static struct proc_dir_entry *dir, *all, *entries[16];

static int version_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " VERSION_TEXT
		 "  Release Build  (test@test)  Tue Mar  5 22:15:33 UTC 2024\n"
		 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
	return 0;
}

static int information_show(struct seq_file *m, void *unused)
{
	long i = (long)m->private;

	seq_printf(m, "Model: \t\t NVIDIA H100 80GB HBM3\n"
		   "IRQ:   \t\t %ld\n"
		   "GPU UUID: \t GPU-00000000-0000-0000-0000-%012ld\n"
		   "Video BIOS: \t 96.00.74.00.01\n"
		   "Bus Type: \t PCIe\n"
		   "DMA Size: \t 52 bits\n"
		   "DMA Mask: \t 0xfffffffffffff\n"
		   "Bus Location: \t %s\n"
		   "Device Minor: \t %ld\n"
		   "GPU Firmware: \t " VERSION_TEXT "\n"
		   "GPU Excluded:\t No\n",
		   100 + i, i, gpus[i], i);
	return 0;
}

static void list_gpu(long i)
{
	if (entries[i] || !all)
		return;
	entries[i] = proc_mkdir(gpus[i], all);
	if (entries[i])
		proc_create_single_data("information", 0444, entries[i], information_show, (void *)i);
}

static int index_of(struct pci_dev *pdev)
{
	int i;

	for (i = 0; i < ngpus; i++)
		if (!strcmp(pci_name(pdev), gpus[i]))
			return i;
	return -ENODEV;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int i = index_of(pdev);

	if (i < 0)
		return i;
	list_gpu(i);
	return 0;
}

static void remove(struct pci_dev *pdev)
{
	int i = index_of(pdev);

	proc_remove(entries[i]);
	entries[i] = NULL;
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID) }, {} };

static struct pci_driver driver = { .name = "nvidia", .id_table = ids, .probe = probe, .remove = remove };

static int __init stub_init(void)
{
	long i;
	int err;

	dir = proc_mkdir("driver/nvidia", NULL);
	if (!dir)
		return -ENOMEM;
	proc_create_single("version", 0444, dir, version_show);
	all = proc_mkdir("gpus", dir);
	for (i = 0; i < ngpus; i++)
		list_gpu(i);
	err = pci_register_driver(&driver);
	if (err)
		proc_remove(dir);
	return err;
}

static void __exit stub_exit(void)
{
	pci_unregister_driver(&driver);
	proc_remove(dir);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION(VERSION_TEXT);
MODULE_DESCRIPTION("stand-in for tests, no GPU driver");
