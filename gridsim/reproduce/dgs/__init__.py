"""The experiments of Vasilakos, Sacha and Pierre on DGS_ASAP."""
