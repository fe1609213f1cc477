export function followSweeps() {}
