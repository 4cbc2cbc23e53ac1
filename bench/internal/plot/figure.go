package plot

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	vgtext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// The sizes of figures.
const (
	width       = 10 * vg.Inch
	legendWidth = 2.7 * vg.Inch
	margin      = 0.15 * vg.Inch
	axisSpace   = 0.22 * vg.Inch // below the plot, for what the axis shows
	dpi         = 110
)

// Figure is one picture.
type Figure struct {
	Suite string
	Case  string // "" if it is of the whole suite
	Name  string // for a file: "kv-time", "kv-set-latency"
	Title string

	plot   *plot.Plot
	x, y   string // what the axes show; "" for none
	keys   []key
	height vg.Length
}

// key is one line of the legend.
type key struct {
	name  string
	thumb plot.Thumbnailer
}

// Figures returns all figures of f, by suite.
func Figures(f *result.File) []Figure {
	var all []Figure
	for _, cases := range f.Suites() {
		for _, make := range []func([][]*result.Row) []Figure{timeFigures, memoryFigures, curveFigures, scaleFigures, latencyFigures} {
			all = append(all, make(cases)...)
		}
	}
	return all
}

// PNG writes the figure as a PNG.
func (g Figure) PNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(width, g.height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	g.draw(draw.New(c))
	return writePNG(w, c.Image())
}

// fonts are families with letters of the same width, for systems that lack the first.
const fonts = "'Liberation Sans',Arial,Helvetica,sans-serif"

// SVG writes the figure as an SVG.
func (g Figure) SVG(w io.Writer) error {
	c := vgsvg.New(width, g.height)
	g.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:"+fonts)))
	return err
}

// draw puts the plot to the left and the legend to its right, where it hides nothing.
func (g Figure) draw(c draw.Canvas) {
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	left := draw.Crop(c, margin, -legendWidth, margin+axisSpace, -margin)
	g.plot.Draw(left)
	g.labels(left)
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle = text(9)
	l.ThumbnailWidth = 14
	l.Padding = 2
	for _, k := range g.keys {
		l.Add(k.name, k.thumb)
	}
	l.Draw(draw.Crop(c, width-legendWidth+margin, -margin, margin, -margin-24))
}

// labels writes what the axes show: below the plot and above it, level. The plot's
// own labels take room as if the axes were linear.
func (g Figure) labels(c draw.Canvas) {
	inside := g.plot.DataCanvas(c)
	style := text(10)
	style.Color = rgb(0x57606a)
	style.XAlign, style.YAlign = vgtext.XCenter, vgtext.YBottom
	c.FillText(style, vg.Point{X: (inside.Min.X + inside.Max.X) / 2, Y: c.Min.Y - axisSpace}, g.x)
	style.XAlign = vgtext.XLeft
	c.FillText(style, vg.Point{X: inside.Min.X, Y: inside.Max.Y + 4}, g.y)
}

// text returns a style without serifs.
func text(size vg.Length) vgtext.Style {
	return vgtext.Style{
		Color: rgb(0x1b1f24), Handler: plot.DefaultTextHandler,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
	}
}

// base returns an empty plot with a title.
func base(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = title
	p.Title.TextStyle = text(13)
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = vgtext.XCenter, vgtext.YTop
	p.Title.Padding = 20
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font.Variant = "Sans"
		a.Tick.Label.Font.Size = 9
		a.LineStyle.Color = rgb(0x57606a)
		a.Tick.LineStyle.Color = rgb(0x57606a)
	}
	return p
}

func grid(p *plot.Plot, vertical, horizontal bool) {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = rgb(0xd8dee4), rgb(0xd8dee4)
	if !vertical {
		g.Vertical.Color = nil
	}
	if !horizontal {
		g.Horizontal.Color = nil
	}
	p.Add(g)
}

// logAxis makes an axis logarithmic from a power of ten below lo to one above hi,
// with ticks in a unit.
func logAxis(a *plot.Axis, lo, hi float64, unit string) {
	a.Scale = plot.LogScale{}
	from, to := math.Floor(math.Log10(lo)+1e-9), math.Ceil(math.Log10(hi)-1e-9)
	if to <= from {
		to = from + 1
	}
	a.Min, a.Max = math.Pow(10, from), math.Pow(10, to)
	// A little room for what lies on the edge.
	room := math.Pow(10, (to-from)*0.015)
	a.Min, a.Max = a.Min/room, a.Max*room
	every := int(math.Ceil((to - from) / 7))
	var ticks []plot.Tick
	for e := int(from); e <= int(to); e++ {
		t := plot.Tick{Value: math.Pow(10, float64(e))}
		if (e-int(from))%every == 0 {
			t.Label = tickLabel(t.Value, unit)
		}
		ticks = append(ticks, t)
		for m := 2.0; m < 10 && e < int(to) && every == 1; m++ {
			minor := plot.Tick{Value: m * t.Value}
			if to-from <= 2 && (m == 2 || m == 5) {
				minor.Label = tickLabel(minor.Value, unit)
			}
			ticks = append(ticks, minor)
		}
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

// tickLabel writes a power of ten: of bytes with decimal units, so that it is round. What
// the unit counts for each of is said below the axis: see per.
func tickLabel(v float64, unit string) string {
	base, _, _ := strings.Cut(unit, "/")
	if base != "B" {
		return report.Value(v, base)
	}
	number := report.Value(v, "1")
	if last := len(number) - 1; number[last] > '9' {
		return number[:last] + " " + number[last:] + "B"
	}
	return number + " B"
}

// per is what an axis shows, with what its unit is for each of: "memory, for each process".
func per(axis, unit string) string {
	if _, each, ok := strings.Cut(unit, "/"); ok {
		return axis + ", for each " + each
	}
	return axis
}

// glyph is how the points of a row look.
func glyph(r *result.Row) draw.GlyphStyle {
	return draw.GlyphStyle{Color: Color(r.Contender), Radius: 3.4, Shape: shape(r.Durability)}
}

// label names a row in a legend, with its durability unless the name has it, and with
// its transport unless it is in the process: "nats-kv-os · TCP".
func label(r *result.Row) string {
	l := r.Contender
	if !strings.HasSuffix(l, "-"+r.Durability) && r.Durability != "none" {
		l += " (" + r.Durability + ")"
	}
	if way := strings.TrimPrefix(r.Transport, "loopback "); way != "" && way != "in process" && way != "none" {
		l += " · " + way
	}
	return l
}

// keysOf returns the legend of rows, each contender once, by name, with ours first.
func keysOf(rows []*result.Row, thumb func(*result.Row) plot.Thumbnailer) []key {
	seen := map[string]*result.Row{}
	var names []string
	for _, r := range rows {
		if seen[label(r)] == nil {
			seen[label(r)] = r
			names = append(names, label(r))
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := seen[a].Ours(), seen[b].Ours()
		switch {
		case x && !y:
			return -1
		case y && !x:
			return 1
		case a < b:
			return -1
		}
		return 1
	})
	var keys []key
	for _, n := range names {
		keys = append(keys, key{n, thumb(seen[n])})
	}
	return keys
}

// legendHeight is what n keys need.
func legendHeight(n int) vg.Length { return vg.Length(n)*14 + 0.8*vg.Inch }

// dot is the key of a glyph.
type dot struct{ style draw.GlyphStyle }

// Thumbnail draws the glyph in the middle.
func (d dot) Thumbnail(c *draw.Canvas) { c.DrawGlyph(d.style, c.Center()) }
