use super::super::testing::*;
