// Kinds of points differ in shape as well as in colour.
export function shape(pen, kind, x, y, ink, ratio, ground) {
  const size = (kind === "pick" || kind === "now" ? 8 : 5.5) * ratio;
  pen.fillStyle = ink;
  pen.strokeStyle = ground;
  pen.lineWidth = 1.5 * ratio;
  pen.beginPath();
  if (kind === "pick" || kind === "now") {
    pen.moveTo(x, y - size); pen.lineTo(x + size, y); pen.lineTo(x, y + size); pen.lineTo(x - size, y); pen.closePath();
  } else if (kind === "front") {
    pen.rect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6);
  } else {
    pen.arc(x, y, size, 0, 2 * Math.PI);
  }
  pen.fill();
  pen.stroke();
}
