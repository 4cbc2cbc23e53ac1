package plot

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

const (
	rowHeight   = 8 // points for each contender of a case
	leastHeight = 2 * vg.Inch
	minCase     = 16            // points for a case
	casesOfOne  = 26            // cases in one figure, at most
	rowsOfOne   = 130           // dots in one figure, about
	frame       = 1.1 * vg.Inch // for title, axis and labels
	least       = 1             // what a logarithmic axis shows zero as
)

// timeFigures shows the time of an operation of all cases of a suite, and every
// other primary metric that cases are compared by.
func timeFigures(cases [][]*result.Row) []Figure {
	figures := dotFigures(cases, "time", "median and 95 % interval", func(r *result.Row) ([]float64, string) {
		if r.Primary != "" {
			return nil, ""
		}
		values, unit, _ := r.Values()
		return values, unit
	})
	var metrics []string
	for _, rows := range cases {
		for _, r := range rows {
			if r.Primary != "" && !slices.Contains(metrics, r.Primary) {
				metrics = append(metrics, r.Primary)
			}
		}
	}
	for _, m := range metrics {
		name := m
		if m == "memory" || m == "time" {
			name = "primary-" + m // those names are taken
		}
		figures = append(figures, dotFigures(cases, name, "median and 95 % interval", func(r *result.Row) ([]float64, string) {
			if r.Primary != m {
				return nil, ""
			}
			values, unit, _ := r.Values()
			return values, unit
		})...)
	}
	return figures
}

// memoryFigures shows what an operation allocates.
func memoryFigures(cases [][]*result.Row) []Figure {
	return dotFigures(cases, "memory", "median and 95 % interval, in the contender's process; 0 is shown as 1 B", func(r *result.Row) ([]float64, string) {
		if r.Primary != "" {
			return nil, ""
		}
		return r.Each(func(s result.Sample) float64 { return s.Bytes }), "B"
	})
}

// dotFigures draws one line for each case, with a dot for each contender.
func dotFigures(cases [][]*result.Row, name, axis string, number func(*result.Row) ([]float64, string)) []Figure {
	var chosen [][]*result.Row
	unit := ""
	for _, rows := range cases {
		var some []*result.Row
		for _, r := range stats.Ranked(rows) {
			if values, u := number(r); len(values) > 0 && (unit == "" || unit == u) {
				unit = u
				some = append(some, r)
			}
		}
		if len(some) > 0 {
			chosen = append(chosen, some)
		}
	}
	var figures []Figure
	parts := portions(chosen)
	for i, part := range parts {
		title := part[0][0].Suite + ": " + heading(name)
		if len(chosen) == 1 {
			title = part[0][0].CaseName() + ": " + heading(name)
		}
		if len(parts) > 1 {
			title += fmt.Sprintf(" (%d of %d)", i+1, len(parts))
		}
		g := dotFigure(part, title, name, axis, unit, number)
		if i > 0 {
			g.Name += "-" + strconv.Itoa(i+1)
		}
		figures = append(figures, g)
	}
	return figures
}

// portions divides cases among figures of about the same height.
func portions(cases [][]*result.Row) [][][]*result.Row {
	rows := 0
	for _, c := range cases {
		rows += len(c)
	}
	parts := max((rows+rowsOfOne-1)/rowsOfOne, (len(cases)+casesOfOne-1)/casesOfOne)
	var all [][][]*result.Row
	before := 0
	for _, c := range cases {
		if len(all)*rows <= before*parts { // the part that is begun has its share
			all = append(all, nil)
		}
		last := len(all) - 1
		all[last] = append(all[last], c)
		before += len(c)
	}
	return all
}

// heading is the title of the figures of that name; other metrics are named as they are.
func heading(name string) string {
	switch name {
	case "time":
		return "time of one operation"
	case "memory":
		return "memory that one operation allocates"
	}
	return strings.TrimPrefix(name, "primary-")
}

func dotFigure(cases [][]*result.Row, title, name, axis, unit string, number func(*result.Row) ([]float64, string)) Figure {
	suite := cases[0][0].Suite
	p := base(title)
	grid(p, true, false)
	lo, hi := 1e300, 0.0
	var all []*result.Row
	var ticks []plot.Tick
	y, height := 0.0, vg.Length(0)
	for i, rows := range slices.Backward(cases) {
		tall := max(float64(len(rows)*rowHeight), minCase)
		if i%2 == 0 {
			p.Add(band{y, y + tall})
		}
		ticks = append(ticks, plot.Tick{Value: y + tall/2, Label: rows[0].Case})
		for k, r := range rows {
			values, _ := number(r)
			s := stats.Summarize(values)
			at := y + tall*(1-(float64(k)+0.5)/float64(len(rows)))
			p.Add(measured{max(s.Lo, least), max(s.Median, least), max(s.Hi, least), at, glyph(r)})
			lo, hi = min(lo, max(s.Lo, least)), max(hi, s.Hi, least)
			all = append(all, r)
		}
		y += tall
		height += vg.Length(tall)
	}
	logAxis(&p.X, lo, hi, unit)
	p.Y.Min, p.Y.Max = 0, y
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length = 0
	keys := keysOf(all, func(r *result.Row) plot.Thumbnailer { return dot{glyph(r)} })
	return Figure{Suite: suite, Name: suite + "-" + name, Title: title, plot: p, x: per(axis, unit), keys: keys,
		height: max(height+frame, legendHeight(len(keys)), leastHeight)}
}

// measured is a dot with its interval.
type measured struct {
	lo, x, hi, y float64
	style        draw.GlyphStyle
}

// Plot draws it.
func (m measured) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: m.style.Color, Width: 1.2}, x(m.lo), y(m.y), x(m.hi), y(m.y))
	c.DrawGlyph(m.style, vg.Point{X: x(m.x), Y: y(m.y)})
}

// band is the background of every other case.
type band struct{ from, to float64 }

// Plot draws it.
func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	c.FillPolygon(color.NRGBA{R: 0xf3, G: 0xf5, B: 0xf8, A: 0xff}, []vg.Point{
		{X: c.Min.X, Y: y(b.from)}, {X: c.Max.X, Y: y(b.from)}, {X: c.Max.X, Y: y(b.to)}, {X: c.Min.X, Y: y(b.to)},
	})
}

// stroke is the key of a line.
type stroke struct {
	line  draw.LineStyle
	style draw.GlyphStyle
}

// Thumbnail draws a piece of the line.
func (s stroke) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(s.line, c.Min.X, y, c.Max.X, y)
	c.DrawGlyph(s.style, c.Center())
}

// lineGlyphs is about how many glyphs a line has: without any, the durabilities of a
// contender would look the same.
const lineGlyphs = 8

// addLine adds a line to p, with glyphs on all of its points or only on some.
func addLine(p *plot.Plot, r *result.Row, points plotter.XYs, all bool) {
	p.Add(&plotter.Line{XYs: points, LineStyle: line(r)})
	step := 1
	if !all {
		step = (len(points) + lineGlyphs - 1) / lineGlyphs
	}
	var marked plotter.XYs
	for i := step / 2; i < len(points); i += step {
		marked = append(marked, points[i])
	}
	p.Add(&plotter.Scatter{XYs: marked, GlyphStyle: glyph(r)})
}

func line(r *result.Row) draw.LineStyle {
	s := draw.LineStyle{Color: Color(r.Contender), Width: 1.6}
	if !r.Ours() {
		s.Dashes = []vg.Length{5, 2}
	}
	return s
}

func lineKeys(rows []*result.Row) []key {
	return keysOf(rows, func(r *result.Row) plot.Thumbnailer { return stroke{line(r), glyph(r)} })
}
