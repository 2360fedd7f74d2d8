//! What the firmware calls the machine.

/// DMI (`/sys/class/dmi/id`); none where the machine has none (most of arm64's device trees) or it
/// says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// `sys_vendor`: `Amazon EC2`, `Microsoft Corporation`, `Google`, `NVIDIA` …
    pub vendor: Option<String>,
    /// `product_name`: on EC2 the instance type, on DGX the model.
    pub product: Option<String>,
    /// `chassis_asset_tag`: by it Azure and OCI are known.
    pub asset_tag: Option<String>,
}
