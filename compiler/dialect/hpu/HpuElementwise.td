// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: one definition line each; their scalar maths is in compiler/kernels and compiler/interp.

#ifndef HPU_ELEMENTWISE_TD
#define HPU_ELEMENTWISE_TD

include "HpuOpBase.td"

/// `narrowing`: its override of HpuOp::getNarrowing, if it has one.
class Hpu_UnaryOp<string mnemonic, string text, string narrowing = ""> : Hpu_TensorOp<mnemonic, !strconcat(elementwise, narrowing)> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$x);
}

def Hpu_ReluOp : Hpu_UnaryOp<"relu", "max(x, 0)">;
def Hpu_SigmoidOp : Hpu_UnaryOp<"sigmoid", "1 / (1 + exp(-x))", bounded>;
def Hpu_TanhOp : Hpu_UnaryOp<"tanh", "Hyperbolic tangent", bounded>;
def Hpu_ErfOp : Hpu_UnaryOp<"erf", "Error function", bounded>;
def Hpu_ExpOp : Hpu_UnaryOp<"exp", "e to the x", leavesRange>;
def Hpu_LogOp : Hpu_UnaryOp<"log", "Natural logarithm", leavesRange>;
def Hpu_SqrtOp : Hpu_UnaryOp<"sqrt", "Square root">;
def Hpu_RsqrtOp : Hpu_UnaryOp<"rsqrt", "1 / sqrt(x)">;
def Hpu_ReciprocalOp : Hpu_UnaryOp<"reciprocal", "1 / x", leavesRange>;
def Hpu_NegOp : Hpu_UnaryOp<"neg", "-x">;
def Hpu_AbsOp : Hpu_UnaryOp<"abs", "Absolute value">;
def Hpu_FloorOp : Hpu_UnaryOp<"floor", "Largest integer not above x">;
def Hpu_CeilOp : Hpu_UnaryOp<"ceil", "Smallest integer not below x">;
def Hpu_RoundOp : Hpu_UnaryOp<"round", "Nearest integer, halves to even">;
def Hpu_SinOp : Hpu_UnaryOp<"sin", "Sine", meaning>;
def Hpu_CosOp : Hpu_UnaryOp<"cos", "Cosine", meaning>;
def Hpu_AtanOp : Hpu_UnaryOp<"atan", "Arc tangent", bounded>;
def Hpu_Expm1Op : Hpu_UnaryOp<"expm1", "exp(x) - 1, also for small x", leavesRange>;
def Hpu_Log1pOp : Hpu_UnaryOp<"log1p", "log(1 + x), also for small x", leavesRange>;
def Hpu_ErfInvOp : Hpu_UnaryOp<"erf_inv", "Inverse of the error function">;
def Hpu_LgammaOp : Hpu_UnaryOp<"lgamma", "Logarithm of the absolute value of the gamma function", leavesRange>;
def Hpu_SoftplusOp : Hpu_UnaryOp<"softplus", "log(1 + exp(x))">;
def Hpu_SiluOp : Hpu_UnaryOp<"silu", "x * sigmoid(x)">;
def Hpu_HardSwishOp : Hpu_UnaryOp<"hard_swish", "x * clip(x / 6 + 0.5, 0, 1)">;
def Hpu_SignOp : Hpu_UnaryOp<"sign", "-1, 0 or 1", bounded>;
def Hpu_NotOp : Hpu_UnaryOp<"not", "Logical negation of an i1 tensor">;
def Hpu_BitNotOp : Hpu_UnaryOp<"bit_not", "Every bit of an integer inverted">;
def Hpu_IsNanOp : Hpu_UnaryOp<"is_nan", "True where x is not a number">;

class Hpu_UnaryAttrOp<string mnemonic, string text, dag attrs> : Hpu_TensorOp<mnemonic, elementwise> {
  let summary = text;
  let arguments = !con((ins AnyRankedTensor:$x), attrs);
}
def Hpu_LeakyReluOp : Hpu_UnaryAttrOp<"leaky_relu", "x, or alpha * x where x is negative", (ins F64Attr:$alpha)>;
def Hpu_EluOp : Hpu_UnaryAttrOp<"elu", "x, or alpha * (exp(x) - 1) where x is negative", (ins F64Attr:$alpha)>;
def Hpu_HardSigmoidOp : Hpu_UnaryAttrOp<"hard_sigmoid", "clip(alpha * x + beta, 0, 1)", (ins F64Attr:$alpha, F64Attr:$beta)>;
def Hpu_ClipOp : Hpu_UnaryAttrOp<"clip", "min(max(x, min), max)", (ins F64Attr:$min, F64Attr:$max)>;
def Hpu_GeluOp : Hpu_UnaryAttrOp<"gelu", "Gaussian error linear unit: with erf, or its tanh approximation", (ins DefaultValuedAttr<BoolAttr, "false">:$tanh_approximation)>;
def Hpu_CastOp : Hpu_UnaryAttrOp<"cast", "Converts elements: to nearest even, float to integer towards zero", (ins TypeAttr:$to)>;
def Hpu_BitcastOp : Hpu_UnaryAttrOp<"bitcast", "The same bits as elements of another type of equal width", (ins TypeAttr:$to)>;

/// Operands broadcast as in NumPy.
class Hpu_BinaryOp<string mnemonic, string text, string narrowing = ""> : Hpu_TensorOp<mnemonic, !strconcat(elementwise, narrowing)> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
}
def Hpu_AddOp : Hpu_BinaryOp<"add", "lhs + rhs">;
def Hpu_SubOp : Hpu_BinaryOp<"sub", "lhs - rhs">;
def Hpu_MulOp : Hpu_BinaryOp<"mul", "lhs * rhs", "::hpu::ir::Narrowing getNarrowing();">;
def Hpu_DivOp : Hpu_BinaryOp<"div", "lhs / rhs; integers truncate">;
def Hpu_PowOp : Hpu_BinaryOp<"pow", "lhs to the power rhs", power>;
def Hpu_MaxOp : Hpu_BinaryOp<"max", "The larger; NaN if either is">;
def Hpu_MinOp : Hpu_BinaryOp<"min", "The smaller; NaN if either is">;
def Hpu_ModOp : Hpu_BinaryOp<"mod", "Remainder with the sign of rhs for integers, of lhs for floats (fmod)">;
def Hpu_PreluOp : Hpu_BinaryOp<"prelu", "lhs, or rhs * lhs where lhs is negative">;
def Hpu_AndOp : Hpu_BinaryOp<"and", "Logical and">;
def Hpu_OrOp : Hpu_BinaryOp<"or", "Logical or">;
def Hpu_XorOp : Hpu_BinaryOp<"xor", "Logical exclusive or">;
def Hpu_BitAndOp : Hpu_BinaryOp<"bit_and", "Bitwise and of integers">;
def Hpu_BitOrOp : Hpu_BinaryOp<"bit_or", "Bitwise or of integers">;
def Hpu_BitXorOp : Hpu_BinaryOp<"bit_xor", "Bitwise exclusive or of integers">;
def Hpu_ShiftLeftOp : Hpu_BinaryOp<"shift_left", "lhs shifted left by rhs bits; 0 for rhs outside [0, bits)">;
def Hpu_ShiftRightOp : Hpu_BinaryOp<"shift_right", "lhs shifted right by rhs bits, arithmetically if signed; 0 for rhs outside [0, bits)">;

class Hpu_CompareOp<string mnemonic, string text> : Hpu_TensorOp<mnemonic, elementwise> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
}
def Hpu_EqualOp : Hpu_CompareOp<"equal", "lhs == rhs">;
def Hpu_LessOp : Hpu_CompareOp<"less", "lhs < rhs">;
def Hpu_LessEqualOp : Hpu_CompareOp<"less_equal", "lhs <= rhs">;
def Hpu_GreaterOp : Hpu_CompareOp<"greater", "lhs > rhs">;
def Hpu_GreaterEqualOp : Hpu_CompareOp<"greater_equal", "lhs >= rhs">;

def Hpu_WhereOp : Hpu_TensorOp<"where", elementwise> {
  let summary = "a where condition, else b; all broadcast";
  let arguments = (ins AnyRankedTensor:$condition, AnyRankedTensor:$a, AnyRankedTensor:$b);
}

#endif
