package plot

import (
	"cmp"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math"
	"slices"
)

const (
	paletteSize = 256 // colours that a PNG can have with a byte for each pixel
	commonest   = 96  // of those are taken because they are there most often
)

// writePNG writes an image with a palette: a third of the bytes of one without.
func writePNG(w io.Writer, m image.Image) error {
	seen := map[color.RGBA]int{}
	each(m, func(_, _ int, c color.RGBA) { seen[c]++ })
	colors := slices.SortedFunc(maps.Keys(seen), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(seen[b], seen[a]), cmp.Compare(number(a), number(b)))
	})
	palette := paletteOf(colors)
	at := make(map[color.RGBA]uint8, len(colors))
	for _, c := range colors {
		at[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(m.Bounds(), palette)
	each(m, func(x, y int, c color.RGBA) { out.SetColorIndex(x, y, at[c]) })
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, out)
}

// paletteOf returns a palette for colours, the commonest first. After these come those
// that are farthest from all that it has: the smooth edge of a fine line is rare, and
// must not get the shade of another contender.
func paletteOf(colors []color.RGBA) color.Palette {
	var palette color.Palette
	distance := make([]int, len(colors)) // to the nearest of the palette
	for i := range distance {
		distance[i] = math.MaxInt
	}
	take := func(c color.RGBA) {
		palette = append(palette, c)
		for i := range colors {
			distance[i] = min(distance[i], apart(colors[i], c))
		}
	}
	for _, c := range colors[:min(len(colors), commonest)] {
		take(c)
	}
	for len(palette) < min(len(colors), paletteSize) {
		farthest := 0
		for i := range distance {
			if distance[i] > distance[farthest] {
				farthest = i
			}
		}
		take(colors[farthest])
	}
	return palette
}

// apart is the square of the distance of two colours.
func apart(a, b color.RGBA) int {
	red, green, blue := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return red*red + green*green + blue*blue
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
