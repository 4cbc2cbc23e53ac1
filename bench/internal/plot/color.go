package plot

import (
	"hash/fnv"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// known are the colours of contenders by the start of their names, the longest
// first that fits. Mainstem is blue or violet; peers keep away from both.
var known = []struct {
	prefix string
	color  color.NRGBA
}{
	{"mainstem-pebble-fsync", rgb(0x0b3d91)},
	{"mainstem-pebble-os", rgb(0x2f7fd6)},
	{"mainstem-pebble-memory", rgb(0x7cc4f5)},
	{"mainstem-pebble-interval", rgb(0x1aa5c4)},
	{"mainstem-pebble", rgb(0x1f5fb4)},
	{"mainstem-nats", rgb(0x3f3fbf)},
	{"mainstem-natskv", rgb(0x8a7fe0)},
	{"mainstem-postgres", rgb(0x5a6fae)},
	{"mainstem-remote", rgb(0x16858c)},
	{"mainstem-kafka", rgb(0x6c3fd8)},
	{"mainstem-omnibus", rgb(0x8a63d2)},
	{"mainstem-binary-any", rgb(0x2f7fd6)},
	{"mainstem-binary-codec", rgb(0x7cc4f5)},
	{"mainstem-binary", rgb(0x0b3d91)},
	{"mainstem-actor", rgb(0x0b3d91)},
	{"mainstem-actor-tls", rgb(0x2f7fd6)},
	{"mainstem", rgb(0x1f5fb4)},
	{"nats-kv", rgb(0x2e9e4f)},
	{"nats", rgb(0x75b93b)},
	{"bbolt", rgb(0xd95f02)},
	{"badger", rgb(0xa6541a)},
	{"pebble", rgb(0xe6ab02)},
	{"pgx", rgb(0x7b2d5e)},
	{"postgres", rgb(0x7b2d5e)},
	{"redis", rgb(0xc8102e)},
	{"etcd", rgb(0x40b0a6)},
	{"kafka", rgb(0x333333)},
	{"kfake", rgb(0xb03a8c)},
	{"redpanda", rgb(0xe2401b)},
	{"vtproto", rgb(0xa0490c)},
	{"proto", rgb(0xd95f02)},
	{"json", rgb(0x777777)},
	{"gob", rgb(0xc2185b)},
	{"msgpack", rgb(0x2e9e4f)},
	{"cbor", rgb(0xe6ab02)},
	{"gob-single", rgb(0xe58bb0)},
	{"go-channel", rgb(0xd95f02)},
	{"map-memory", rgb(0x4d4d4d)},
	{"raw-tcp", rgb(0x2e9e4f)},
}

// others are for names that are not known.
var others = []color.NRGBA{rgb(0x4d7c0f), rgb(0x9aa021), rgb(0xd46a8c), rgb(0x6b4c2a), rgb(0x5f9e6e), rgb(0xd98c5f), rgb(0x8c8c00), rgb(0x803e5c)}

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 0xff}
}

// Color returns the colour of a contender: always the same.
func Color(contender string) color.NRGBA {
	longest, found := -1, color.NRGBA{}
	for _, k := range known {
		if strings.HasPrefix(contender, k.prefix) && len(k.prefix) > longest {
			longest, found = len(k.prefix), k.color
		}
	}
	if longest >= 0 {
		return found
	}
	h := fnv.New32a()
	h.Write([]byte(contender))
	return others[h.Sum32()%uint32(len(others))]
}

// shape returns the glyph of a durability: the fuller, the more is kept.
func shape(durability string) draw.GlyphDrawer {
	switch {
	case strings.HasPrefix(durability, "fsync"):
		return draw.BoxGlyph{}
	case strings.HasPrefix(durability, "interval"):
		return draw.PyramidGlyph{}
	case strings.HasPrefix(durability, "memory"):
		return outline{}
	case strings.HasPrefix(durability, "none"):
		return draw.CircleGlyph{}
	}
	return outline{corners: 3}
}

// outlineWidth is that of hollow glyphs: a line that is finer has no colour.
const outlineWidth = 1.4

// outline is a hollow glyph with so many corners, a ring with none. It is filled with
// white, so that what is behind it does not pass for its own.
type outline struct{ corners int }

// DrawGlyph draws it around a point.
func (o outline) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	radius := s.Radius - outlineWidth/4
	if o.corners == 3 {
		radius *= 1.2 // as large to the eye
	}
	var p vg.Path
	if o.corners == 0 {
		p.Move(vg.Point{X: at.X + radius, Y: at.Y})
		p.Arc(at, radius, 0, 2*math.Pi)
	}
	for k := range o.corners {
		sin, cos := math.Sincos(math.Pi/2 + 2*math.Pi*float64(k)/float64(o.corners))
		corner := vg.Point{X: at.X + radius*vg.Length(cos), Y: at.Y + radius*vg.Length(sin)}
		if k == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	c.SetColor(color.White)
	c.Fill(p)
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: outlineWidth})
	c.Stroke(p)
}
