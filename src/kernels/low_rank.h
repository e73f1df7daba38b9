// Products of a matrix with thin ones, for matrices that travel as two of those.
//
// A matrix lies row by row. The thin matrices lie as `rank` vectors one behind the other: the left one has vectors of
// `rows` numbers, the right one of `columns`; their product is the matrix  sum over k of left_k right_k^T.
//
// Invariant: the same bits come out on every instruction set; every multiplication and addition is rounded on its own,
// in an order that the sizes alone decide. NaN is canonical.
#pragma once

#include <cstddef>

namespace tutti::kernels {

struct MatrixSize {
  std::size_t rows = 0, columns = 0, rank = 1;
};

// Element i goes to partial sum i % 16, and those are added pairwise, nearest first.
float dot(const float* a, const float* b, std::size_t count);

// left_k = matrix right_k: dot() of every row.
void multiply_right(const MatrixSize& size, const float* matrix, const float* right, float* left);
// right_k = matrix^T left_k: rows are added one after the other.
void multiply_left(const MatrixSize& size, const float* matrix, const float* left, float* right);
// Columns [first, first + count) of a row of the product, in the order of k. `result` has `count` numbers.
void product_of_row(const MatrixSize& size, const float* left, const float* right, std::size_t row, std::size_t first,
                    std::size_t count, float* result);
// y[i] += factor * x[i].
void add_multiple(float* y, const float* x, float factor, std::size_t count);

}  // namespace tutti::kernels
