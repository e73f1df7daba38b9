// Rows of whole numbers by runs, as tools/view/packed.h writes them: how many rows, and what each number grows by.
export function* unpacked(numbers, width) {
  const row = new Array(width).fill(0);
  for (let i = 0; i < numbers.length; i += width + 1) {
    for (let left = numbers[i]; left > 0; --left) {
      for (let at = 0; at < width; ++at) row[at] += numbers[i + 1 + at];
      yield [...row];
    }
  }
}
