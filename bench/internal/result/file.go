package result

import (
	"slices"
	"strings"
	"time"
)

// Version is the version of the format that Write writes. Read also reads older ones,
// down to oldest: what they do not say is unknown.
const (
	Version = 2 // rows say how contenders are reached
	oldest  = 1
)

// Unknown is what stands for a transport that a file does not say.
const Unknown = "unknown"

// File is one run of the bench.
type File struct {
	Version  int       `json:"version"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Interrupted is true if the run was stopped before its end: rows are missing.
	Interrupted bool     `json:"interrupted,omitempty"`
	Note        string   `json:"note,omitempty"` // what a reader has to know, such as that the machine was shared
	Machine     Machine  `json:"machine"`
	Build       Build    `json:"build"`
	Settings    Settings `json:"settings"`
	Rows        []Row    `json:"rows"`
}

// Machine is where it ran.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"` // that the process may use
	Memory     int64  `json:"memory"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"` // of the directory that was written to
}

// Build is what ran.
type Build struct {
	Go      string            `json:"go"`
	Commit  string            `json:"commit"`  // of this repository, "" if unknown
	Changed bool              `json:"changed"` // the tree differed from the commit
	Modules map[string]string `json:"modules"` // the versions of what was linked
}

// Settings is how it ran.
type Settings struct {
	Rounds    int           `json:"rounds"`
	Time      time.Duration `json:"time"` // that one round aims at, in nanoseconds
	Limit     time.Duration `json:"limit,omitempty"`
	Quick     bool          `json:"quick,omitempty"`
	Scale     bool          `json:"scale,omitempty"`
	InProcess bool          `json:"in_process,omitempty"` // contenders ran in the process of the bench
	Selection []string      `json:"selection,omitempty"`
}

// The states of a row.
const (
	OK      = "ok"
	Skipped = "skipped"
	Failed  = "failed"
)

// Row is one contender in one case.
type Row struct {
	Suite      string `json:"suite"`
	Case       string `json:"case"`
	Contender  string `json:"contender"`
	Durability string `json:"durability"`
	// Transport is how the contender was reached: "in process", "loopback TCP". "" in
	// files of version 1, and of contenders that do not say it.
	Transport  string `json:"transport,omitempty"`
	About      string `json:"about,omitempty"`
	Note       string `json:"note,omitempty"`
	Op         string `json:"op"`
	Items      int    `json:"items"`
	BytesPerOp int64  `json:"bytes_per_op,omitempty"`
	Clients    int    `json:"clients"`
	Primary    string `json:"primary,omitempty"`
	Curve      *Curve `json:"curve,omitempty"`
	Scale      bool   `json:"scale,omitempty"`

	Status string `json:"status"`
	Reason string `json:"reason,omitempty"` // why it is not OK

	Samples []Sample `json:"samples,omitempty"` // one for each round
	Latency *Latency `json:"latency,omitempty"` // of all rounds together
	Metrics []Metric `json:"metrics,omitempty"`
	Marks   []Mark   `json:"marks,omitempty"` // of the last round
}

// Curve places the row on a curve of its suite.
type Curve struct {
	Name string  `json:"name"`
	Axis string  `json:"axis"`
	X    float64 `json:"x"`
}

// Sample is one round.
type Sample struct {
	Ops    int     `json:"ops"`
	Time   float64 `json:"ns"`     // of one operation, in nanoseconds
	Bytes  float64 `json:"bytes"`  // allocated for one operation in the contender's process
	Allocs float64 `json:"allocs"` // allocations of one operation there
	Order  int     `json:"order"`  // the place of the round in the whole run
}

// Latency is a distribution, in nanoseconds.
type Latency struct {
	Count  int64   `json:"count"` // latencies recorded
	Mean   float64 `json:"mean"`
	Max    int64   `json:"max"`
	Points []Point `json:"points"` // of [Quantiles]
}

// Point is one quantile of a distribution.
type Point struct {
	Quantile float64 `json:"q"` // 0 to 1
	Time     int64   `json:"ns"`
}

// Quantiles are those that a [Latency] has.
var Quantiles = []float64{
	0.01, 0.05, 0.10, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.90, 0.925, 0.95, 0.965,
	0.98, 0.99, 0.9925, 0.995, 0.9975, 0.999, 0.9995, 0.9999, 0.99999,
}

// Metric is a number beside the time, one value for each round.
type Metric struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	More   bool      `json:"more,omitempty"` // more is better
	Values []float64 `json:"values"`
}

// Mark says how many operations were done after how long.
type Mark struct {
	Done    int           `json:"done"`
	Elapsed time.Duration `json:"ns"`
}

// Name returns "suite/case/contender".
func (r *Row) Name() string { return r.Suite + "/" + r.Case + "/" + r.Contender }

// CaseName returns "suite/case".
func (r *Row) CaseName() string { return r.Suite + "/" + r.Case }

// Ours reports whether the contender is Mainstem.
func (r *Row) Ours() bool { return strings.HasPrefix(r.Contender, "mainstem") }

// Served reports whether the contender answers from another process, through a socket.
func (r *Row) Served() bool {
	return r.Transport != "" && r.Transport != "in process" && r.Transport != "none"
}

// Over returns the transport, or Unknown.
func (r *Row) Over() string {
	if r.Transport == "" {
		return Unknown
	}
	return r.Transport
}

// At returns the latency at quantile q, one of [Quantiles].
func (l *Latency) At(q float64) time.Duration {
	if l != nil {
		for _, p := range l.Points {
			if p.Quantile == q {
				return time.Duration(p.Time)
			}
		}
	}
	return 0
}

// Metric returns the metric of that name, nil if the row has none.
func (r *Row) Metric(name string) *Metric {
	i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Metrics[i]
}

// Values returns what rows of a case are compared by, its unit, and whether more
// of it is better: the time of an operation, or the primary metric.
func (r *Row) Values() (values []float64, unit string, more bool) {
	if r.Primary == "" {
		return r.Each(func(s Sample) float64 { return s.Time }), "ns", false
	}
	if m := r.Metric(r.Primary); m != nil {
		return m.Values, m.Unit, m.More
	}
	return nil, "", false
}

// Each returns one number of every sample.
func (r *Row) Each(number func(Sample) float64) []float64 {
	values := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		values[i] = number(s)
	}
	return values
}

// Cases returns the rows by case, both in the order of the file.
func (f *File) Cases() [][]*Row {
	var cases [][]*Row
	at := make(map[string]int)
	for i := range f.Rows {
		r := &f.Rows[i]
		k, ok := at[r.CaseName()]
		if !ok {
			k = len(cases)
			at[r.CaseName()] = k
			cases = append(cases, nil)
		}
		cases[k] = append(cases[k], r)
	}
	return cases
}

// Suites returns the cases by suite.
func (f *File) Suites() [][][]*Row {
	var suites [][][]*Row
	at := make(map[string]int)
	for _, c := range f.Cases() {
		k, ok := at[c[0].Suite]
		if !ok {
			k = len(suites)
			at[c[0].Suite] = k
			suites = append(suites, nil)
		}
		suites[k] = append(suites[k], c)
	}
	return suites
}
