# SPDX-License-Identifier: Apache-2.0
"""Fused optimisers, kernels and norms, and precision, under the names of habana_frameworks.torch.hpex."""
