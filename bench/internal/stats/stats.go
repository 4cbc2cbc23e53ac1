// Package stats says what samples tell, and what they do not.
//
// A [Summary] is a median with its confidence interval; a [Comparison] is the ratio
// of two samples with its confidence interval and a significance test. Neither
// assumes a distribution: times have long tails. Medians, intervals and the test
// (Mann-Whitney) are those of golang.org/x/perf/benchmath, which benchstat uses.
//
// # Guarantees
//
// Samples are not changed. Too few samples never make a difference: three rounds
// each cannot be told apart at five percent, whatever they measured.
//
// # Testing
//
// Intervals are tested by how often they hold for samples whose median is known.
package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the level of the intervals.
const Confidence = 0.95

// DefaultAlpha is how often two samples of the same thing may be called different
// in a report. Comparisons that decide about a build use a stricter one.
const DefaultAlpha = 0.05

// Summary is the median of a sample.
type Summary struct {
	Median     float64
	Lo, Hi     float64 // the interval around it
	Confidence float64 // of the interval: less than [Confidence] where samples are few
	N          int
}

// Summarize returns the median of values with its interval. With fewer than six
// values the interval is from the least to the greatest, and Confidence is what that
// is worth.
func Summarize(values []float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, Confidence)
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		s.Lo, s.Hi = sample.Values[0], sample.Values[n-1]
		s.Confidence = 1 - math.Pow(2, 1-float64(n)) // the median is outside if all values are on one side of it
	}
	return Summary{Median: s.Center, Lo: s.Lo, Hi: s.Hi, Confidence: s.Confidence, N: n}
}

// Spread returns the farther end of the interval as a part of the median: 0.05 is
// "± 5 %".
func (s Summary) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return max(s.Hi-s.Median, s.Median-s.Lo) / math.Abs(s.Median)
}

// Comparison is how a sample compares with another, the old one.
type Comparison struct {
	Ratio  float64 // new / old; NaN if it makes no sense
	Lo, Hi float64 // its interval at [Confidence]
	P      float64 // how likely samples of the same thing differ as much
	Alpha  float64 // P below it makes a difference
	// Needed is the number of rounds of each side with which P can be below Alpha, if
	// there were fewer; else 0.
	Needed int
}

// Compare compares two samples, given what P has to be below.
func Compare(old, new []float64, alpha float64) Comparison {
	t := &benchmath.Thresholds{CompareAlpha: alpha}
	c := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(old), t), benchmath.NewSample(slices.Clone(new), t))
	out := Comparison{P: c.P, Alpha: alpha}
	out.Ratio, out.Lo, out.Hi = ratio(old, new)
	if n := Rounds(alpha); len(old) < n || len(new) < n {
		out.Needed = n
	}
	return out
}

// Different reports whether the samples differ by more than noise explains.
func (c Comparison) Different() bool { return c.P < c.Alpha && !math.IsNaN(c.Ratio) && c.Ratio != 1 }

// Rounds returns how many rounds of each side can be told apart at alpha.
func Rounds(alpha float64) int {
	arrangements := 1.0 // of n values among 2n; two of them are the most extreme
	for n := 1; ; n++ {
		arrangements *= float64(2*n*(2*n-1)) / float64(n*n)
		if 2/arrangements < alpha || n == 30 {
			return n
		}
	}
}

// ratio returns the median of the ratios of every new value to every old one, and
// the interval that goes with the Mann-Whitney test (Hodges and Lehmann).
func ratio(old, new []float64) (center, lo, hi float64) {
	var ratios []float64
	for _, o := range old {
		for _, n := range new {
			switch {
			case o == n:
				ratios = append(ratios, 1)
			case o > 0 && n >= 0:
				ratios = append(ratios, n/o)
			default:
				return math.NaN(), math.NaN(), math.NaN()
			}
		}
	}
	if len(ratios) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	slices.Sort(ratios)
	const z = 1.959964 // of Confidence, two-sided
	a, b := float64(len(old)), float64(len(new))
	k := int(a*b/2 - z*math.Sqrt(a*b*(a+b+1)/12))
	k = min(max(k, 0), (len(ratios)-1)/2)
	mid := len(ratios) / 2
	center = ratios[mid]
	if len(ratios)%2 == 0 {
		center = (ratios[mid-1] + ratios[mid]) / 2
	}
	return center, ratios[k], ratios[len(ratios)-1-k]
}
