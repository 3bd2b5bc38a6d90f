// Where each node's cell is. Pure: groups and a width in, rectangles out. Cells are as large as fit the height that a
// screen has to give; groups stand side by side where that makes cells larger. Finding the cell under the pointer and
// the neighbour for an arrow key is arithmetic on the grid, so both take no time with 5,000 nodes.

const LARGEST = 112;
const SMALLEST = 7;
const HEADING = 26;
const BETWEEN = 18;
const NARROWEST = 150;

/** Lays out groups [{label, members}]; returns {width, height, cell, gap, blocks, place(index), at(x, y), step(index, key)}. */
export function layOut(groups, width, height) {
  let best = null;
  const most = Math.max(1, Math.min(groups.length, Math.floor((width + BETWEEN) / (NARROWEST + BETWEEN)), 6));
  for (let columns = 1; columns <= most; columns += 1) {
    const found = largest(groups, width, height, columns);
    if (!best || found.cell > best.cell || (found.cell === best.cell && found.height < best.height)) best = found;
  }
  return { ...best, width, ...lookup(best) };
}

function largest(groups, width, height, columns) {
  const across = Math.floor((width - BETWEEN * (columns - 1)) / columns);
  let low = SMALLEST;
  let high = Math.min(LARGEST, across);
  let found = shelves(groups, across, columns, low);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const tried = shelves(groups, across, columns, middle);
    if (tried.height <= height) {
      low = middle;
      found = tried;
    } else high = middle - 1;
  }
  return found;
}

function shelves(groups, across, columns, cell) {
  const gap = cell >= 40 ? 6 : cell >= 16 ? 3 : cell >= 10 ? 2 : 1;
  const perRow = Math.max(1, Math.floor((across + gap) / (cell + gap)));
  const heading = groups.length > 1 || groups[0]?.label ? HEADING : 0;
  const blocks = [];
  let top = 0;
  for (let first = 0; first < groups.length; first += columns) {
    let tallest = 0;
    groups.slice(first, first + columns).forEach((group, column) => {
      const rows = Math.ceil(group.members.length / perRow);
      const tall = heading + rows * (cell + gap) - gap;
      blocks.push({ ...group, x: column * (across + BETWEEN), y: top, heading, across, perRow, rows, tall });
      tallest = Math.max(tallest, tall);
    });
    top += tallest + BETWEEN;
  }
  return { cell, gap, blocks, height: Math.max(cell, top - BETWEEN) };
}

function lookup({ blocks, cell, gap }) {
  const home = new Map();
  blocks.forEach((block, number) => block.members.forEach((member, position) => home.set(member, [number, position])));
  const pitch = cell + gap;
  const place = (index) => {
    const found = home.get(index);
    if (!found) return null;
    const block = blocks[found[0]];
    return {
      x: block.x + (found[1] % block.perRow) * pitch,
      y: block.y + block.heading + Math.floor(found[1] / block.perRow) * pitch,
      size: cell,
    };
  };
  const at = (x, y) => {
    for (const block of blocks) {
      const [column, row] = [Math.floor((x - block.x) / pitch), Math.floor((y - block.y - block.heading) / pitch)];
      if (column < 0 || row < 0 || column >= block.perRow || row >= block.rows || x > block.x + block.across) continue;
      const member = block.members[row * block.perRow + column];
      if (member !== undefined) return member;
    }
    return -1;
  };
  const order = blocks.flatMap((block) => block.members);
  const step = (index, key) => {
    if (!home.has(index)) return order[0] ?? -1;
    const [number, position] = home.get(index);
    const { perRow, members } = blocks[number];
    if (key === "Home") return order[0];
    if (key === "End") return order.at(-1);
    const along = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (along) return order[order.indexOf(index) + along] ?? index;
    const next = position + (key === "ArrowUp" ? -perRow : perRow);
    if (next >= 0 && next < members.length) return members[next];
    const other = blocks[number + (key === "ArrowUp" ? -1 : 1)]; // over the edge: the next group
    if (!other) return index;
    return key === "ArrowUp" ? other.members.at(-1) : other.members[0];
  };
  return { place, at, step };
}
