package plot

import (
	"cmp"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"slices"
)

// paletteSize is how many colours a PNG can have with a byte for each pixel.
const paletteSize = 256

// writePNG writes an image with a palette: a third of the bytes of one without, and
// only the smoothing of some edges has a shade next to its own.
func writePNG(w io.Writer, m image.Image) error {
	seen := map[color.RGBA]int{}
	each(m, func(_, _ int, c color.RGBA) { seen[c]++ })
	colors := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(number(a), number(b)))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), paletteSize)] {
		palette = append(palette, c)
	}
	at := make(map[color.RGBA]uint8, len(colors))
	for _, c := range colors {
		at[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(m.Bounds(), palette)
	each(m, func(x, y int, c color.RGBA) { out.SetColorIndex(x, y, at[c]) })
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, out)
}

func each(m image.Image, f func(x, y int, c color.RGBA)) {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, b, _ := m.At(x, y).RGBA() // the background is opaque
			f(x, y, color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0xff})
		}
	}
}

// number orders colours that are there equally often.
func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
