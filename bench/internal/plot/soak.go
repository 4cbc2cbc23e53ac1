package plot

import (
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/soak"
)

// curve is one number of the samples of a soak.
type curve struct {
	name  string
	color color.NRGBA
	of    func(*soak.Sample) float64
}

// SoakFigures returns the times of commits of a soak against time, the memory and disk of its
// process, and what it has open.
func SoakFigures(r *soak.Result) []Figure {
	if len(r.Series) == 0 {
		return nil
	}
	dark, blue, light, red := rgb(0x0b3d91), rgb(0x2f7fd6), rgb(0x7cc4f5), rgb(0xc8102e)
	return []Figure{
		soakFigure(r, "latency", "times of commits", "ns", []curve{
			{"longest", red, func(s *soak.Sample) float64 { return float64(s.Max) }},
			{"p99.9", dark, func(s *soak.Sample) float64 { return float64(s.P999) }},
			{"p99", blue, func(s *soak.Sample) float64 { return float64(s.P99) }},
			{"p50", light, func(s *soak.Sample) float64 { return float64(s.P50) }},
		}),
		soakFigure(r, "bytes", "memory and disk", "B", []curve{
			{"on disk", rgb(0x333333), func(s *soak.Sample) float64 { return float64(s.Disk) }},
			{"resident", dark, func(s *soak.Sample) float64 { return float64(s.Resident) }},
			{"Go heap", blue, func(s *soak.Sample) float64 { return float64(s.Heap) }},
			{"in no sorted file", light, func(s *soak.Sample) float64 { return float64(s.InMemory) }},
			{"to compact", red, func(s *soak.Sample) float64 { return float64(s.Debt) }},
		}),
		soakFigure(r, "count", "files and goroutines", "1", []curve{
			{"open files", dark, func(s *soak.Sample) float64 { return float64(s.Files) }},
			{"sorted files", blue, func(s *soak.Sample) float64 { return float64(s.SortedFiles) }},
			{"goroutines", red, func(s *soak.Sample) float64 { return float64(s.Goroutines) }},
		}),
	}
}

func soakFigure(r *soak.Result, name, y, unit string, curves []curve) Figure {
	title := "soak at " + r.Settings.Durability + ", " + report.Value(r.Rate, "1") + " commits each second: " + y
	p := base(title)
	grid(p, true, true)
	lo, hi, end := math.Inf(1), 0.0, r.Series[len(r.Series)-1].At.Minutes()
	var keys []key
	for _, c := range curves {
		var points plotter.XYs
		for i := range r.Series {
			if v := c.of(&r.Series[i]); v > 0 { // the axis is logarithmic: what is not there leaves a gap
				points = append(points, plotter.XY{X: r.Series[i].At.Minutes(), Y: v})
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		style := draw.LineStyle{Color: c.color, Width: 1.1}
		if len(points) > 0 {
			p.Add(&plotter.Line{XYs: points, LineStyle: style})
			keys = append(keys, key{c.name, stroke{line: style}})
		}
	}
	if hi == 0 {
		lo, hi = 1, 10
	}
	logAxis(&p.Y, lo, hi, unit)
	p.X.Min, p.X.Max = 0, end
	p.X.Tick.Marker = minuteTicks(end)
	return Figure{Suite: "soak", Name: "soak-" + name, Title: title, plot: p, x: "time", y: y, keys: keys, height: max(curveHeight, legendHeight(len(keys)))}
}

// minuteTicks has about eight ticks at times that people use.
func minuteTicks(end float64) plot.Ticker {
	steps := []float64{1.0 / 600, 1.0 / 60, 1.0 / 12, 0.25, 1, 2, 5, 10, 30, 60, 180, 720}
	step := steps[0]
	for _, s := range steps {
		if end/step > 9 {
			step = s
		}
	}
	var ticks []plot.Tick
	for x := 0.0; x <= end*1.001; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: time.Duration(x * float64(time.Minute)).Round(100 * time.Millisecond).String()})
	}
	return plot.ConstantTicks(ticks)
}
