package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

const curveHeight = 4.6 * vg.Inch

// fileName makes a name of a file of a case.
func fileName(s string) string { return strings.NewReplacer("/", "-", " ", "-").Replace(s) }

// curveFigures shows the throughput of cases that form a curve, such as against
// the number of clients.
func curveFigures(cases [][]*result.Row) []Figure {
	rows := map[string][]*result.Row{}
	var names []string
	for _, c := range cases {
		for _, r := range stats.Ranked(c) {
			if r.Curve == nil || r.Primary != "" {
				continue
			}
			if rows[r.Curve.Name] == nil {
				names = append(names, r.Curve.Name)
			}
			rows[r.Curve.Name] = append(rows[r.Curve.Name], r)
		}
	}
	var figures []Figure
	for _, name := range names {
		if g, ok := curveFigure(name, rows[name]); ok {
			figures = append(figures, g)
		}
	}
	return figures
}

func curveFigure(name string, rows []*result.Row) (Figure, bool) {
	suite, axis := rows[0].Suite, rows[0].Curve.Axis
	title := fmt.Sprintf("%s: throughput of %s against %s", suite, name, axis)
	p := base(title)
	grid(p, true, true)
	points := map[string]plotter.XYs{}
	first := map[string]*result.Row{}
	var xs []float64
	lo, hi := math.Inf(1), 0.0
	for _, r := range rows {
		if alone(r, rows) {
			continue
		}
		values, _, _ := r.Values()
		rate := 1e9 / max(stats.Summarize(values).Median, 1e-3) * float64(r.Items)
		points[label(r)] = append(points[label(r)], plotter.XY{X: r.Curve.X, Y: rate})
		first[label(r)] = r
		lo, hi = min(lo, rate), max(hi, rate)
		if !slices.Contains(xs, r.Curve.X) {
			xs = append(xs, r.Curve.X)
		}
	}
	if len(xs) < 2 {
		return Figure{}, false
	}
	slices.Sort(xs)
	for _, l := range sortedLabels(points) {
		slices.SortFunc(points[l], func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		addLine(p, first[l], points[l], true)
	}
	logAxis(&p.Y, lo, hi, "1")
	pointAxis(&p.X, xs)
	keys := lineKeys(slices.DeleteFunc(slices.Clone(rows), func(r *result.Row) bool { return alone(r, rows) }))
	return Figure{Suite: suite, Name: suite + "-" + fileName(name) + "-" + fileName(axis), Title: title, plot: p, x: axis, y: report.Plural(rows[0].Op) + " each second", keys: keys,
		height: max(curveHeight, legendHeight(len(keys)))}, true
}

// alone reports whether a row is the only point of its contender: no line.
func alone(row *result.Row, rows []*result.Row) bool {
	return !slices.ContainsFunc(rows, func(r *result.Row) bool { return label(r) == label(row) && r.Curve.X != row.Curve.X })
}

// pointAxis has a tick for each value, logarithmic if they are far apart.
func pointAxis(a *plot.Axis, xs []float64) {
	a.Min, a.Max = xs[0], xs[len(xs)-1]
	if xs[0] > 0 {
		a.Scale = plot.LogScale{}
		a.Min, a.Max = a.Min/1.08, a.Max*1.08
	}
	var ticks []plot.Tick
	for _, x := range xs {
		ticks = append(ticks, plot.Tick{Value: x, Label: report.Value(x, "1")})
	}
	a.Tick.Marker = plot.ConstantTicks(ticks)
}

func sortedLabels(points map[string]plotter.XYs) []string {
	var labels []string
	for l := range points {
		labels = append(labels, l)
	}
	slices.Sort(labels)
	return labels
}

// scaleFigures shows how fast the parts of a scale test were.
func scaleFigures(cases [][]*result.Row) []Figure {
	var figures []Figure
	for _, rows := range cases {
		var some []*result.Row
		title := rows[0].CaseName() + ": throughput as it goes on"
		p := base(title)
		grid(p, true, true)
		lo, hi, far := math.Inf(1), 0.0, farthest(rows)
		for _, r := range stats.Ranked(rows) {
			points := pace(r, far/scalePoints)
			if !r.Scale || len(points) < 2 {
				continue
			}
			for _, q := range points {
				lo, hi = min(lo, q.Y), max(hi, q.Y)
			}
			addLine(p, r, points, false)
			some = append(some, r)
		}
		if len(some) == 0 {
			continue
		}
		logAxis(&p.Y, lo, hi, "1")
		p.X.Min, p.X.Max = 0, far
		p.X.Tick.Marker = plainTicks(far)
		keys := lineKeys(some)
		figures = append(figures, Figure{Suite: rows[0].Suite, Name: rows[0].Suite + "-" + fileName(rows[0].Case) + "-scale",
			Title: title, plot: p, x: report.Plural(rows[0].Op) + " done", y: report.Plural(rows[0].Op) + " each second",
			keys: keys, height: max(curveHeight, legendHeight(len(keys)))})
	}
	return figures
}

// scalePoints is about how many points a line has that goes all the way: a contender that
// did a tenth has a tenth of them, not as many in a tangle.
const scalePoints = 60

// farthest returns how many things the marks of scale tests go to.
func farthest(rows []*result.Row) float64 {
	far := 1.0
	for _, r := range rows {
		if n := len(r.Marks); n > 0 && r.Scale {
			far = max(far, float64(r.Marks[n-1].Done*r.Items))
		}
	}
	return far
}

// pace returns how many things were done in a second, for stretches of least things.
func pace(r *result.Row, least float64) plotter.XYs {
	var points plotter.XYs
	last := result.Mark{}
	for _, m := range r.Marks {
		things := float64(m.Done-last.Done) * float64(r.Items)
		if d := m.Elapsed - last.Elapsed; d > 0 && things > 0 && things >= least {
			points = append(points, plotter.XY{X: float64(m.Done * r.Items), Y: things / d.Seconds()})
			last = m
		}
	}
	return points
}

func plainTicks(far float64) plot.Ticker {
	step := math.Pow(10, math.Floor(math.Log10(max(far, 1))))
	for far/step < 4 {
		step /= 2
	}
	var ticks []plot.Tick
	for x := 0.0; x <= far*1.001; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: report.Value(x, "1")})
	}
	return plot.ConstantTicks(ticks)
}

// latencyFigures shows the distribution of latencies of each case.
func latencyFigures(cases [][]*result.Row) []Figure {
	var figures []Figure
	for _, rows := range cases {
		var some []*result.Row
		title := rows[0].CaseName() + ": latency of one operation"
		p := base(title)
		grid(p, true, true)
		lo, hi, far := math.Inf(1), 0.0, 0.0
		for _, r := range stats.Ranked(rows) {
			if r.Latency == nil || len(r.Latency.Points) < 2 {
				continue
			}
			var points plotter.XYs
			for _, q := range r.Latency.Points {
				y := max(float64(q.Time), 1)
				points = append(points, plotter.XY{X: nines(q.Quantile), Y: y})
				lo, hi, far = min(lo, y), max(hi, y), max(far, nines(q.Quantile))
			}
			addLine(p, r, points, false)
			some = append(some, r)
		}
		if len(some) == 0 {
			continue
		}
		logAxis(&p.Y, lo, hi, "ns")
		p.X.Min, p.X.Max = 0, max(far, 1)
		p.X.Tick.Marker = percentileTicks
		keys := lineKeys(some)
		figures = append(figures, Figure{Suite: rows[0].Suite, Case: rows[0].Case, Name: rows[0].Suite + "-" + fileName(rows[0].Case) + "-latency",
			Title: title, plot: p, x: "percentile of operations", y: "latency", keys: keys, height: max(curveHeight, legendHeight(len(keys)))})
	}
	return figures
}

// nines spreads the tail of a distribution: 0.9 is 1, 0.99 is 2, 0.999 is 3.
func nines(q float64) float64 { return -math.Log10(1 - q) }

var percentileTicks = plot.ConstantTicks{
	{Value: 0, Label: "0 %"}, {Value: nines(0.5), Label: "50 %"}, {Value: 1, Label: "90 %"}, {Value: 2, Label: "99 %"},
	{Value: 3, Label: "99.9 %"}, {Value: 4, Label: "99.99 %"}, {Value: 5, Label: "99.999 %"},
}
