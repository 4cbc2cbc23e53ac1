package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// GoBench writes the measured rows in the format of Go benchmarks, one line for
// each round: benchstat reads it. The transport is a line of configuration before
// those that it holds for, so that benchstat makes a table of each.
func GoBench(w io.Writer, f *result.File) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\ncpu: %s\ncommit: %s\n", f.Machine.OS, f.Machine.Arch, f.Machine.CPU, f.Build.Commit)
	transport := ""
	for _, rows := range f.Cases() {
		for _, r := range rows {
			if r.Status == result.OK {
				if over := r.Over(); over != transport {
					transport = over
					fmt.Fprintf(&b, "transport: %s\n", transport)
				}
				benchLines(&b, r, f.Machine.Cores)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func benchLines(b *strings.Builder, r *result.Row, cores int) {
	name := benchName(r)
	for i, s := range r.Samples {
		fmt.Fprintf(b, "Benchmark%s-%d\t%d\t%g ns/op", name, cores, s.Ops, s.Time)
		if r.BytesPerOp > 0 && s.Time > 0 {
			fmt.Fprintf(b, "\t%g MB/s", float64(r.BytesPerOp)/s.Time*1e3)
		}
		fmt.Fprintf(b, "\t%.0f B/op\t%.0f allocs/op", s.Bytes, s.Allocs)
		for _, m := range r.Metrics {
			if i < len(m.Values) {
				fmt.Fprintf(b, "\t%g %s-%s", m.Values[i], benchWord(m.Name), benchWord(m.Unit))
			}
		}
		b.WriteByte('\n')
	}
}

// benchName is "Kv/set/durability=fsync/bbolt": the first letter must be large.
func benchName(r *result.Row) string {
	suite := []rune(benchWord(r.Suite))
	suite[0] = unicode.ToUpper(suite[0])
	return string(suite) + "/" + benchWord(r.Case) + "/durability=" + benchWord(r.Durability) + "/" + benchWord(r.Contender)
}

// benchWord makes s a word without spaces.
func benchWord(s string) string { return strings.Join(strings.Fields(s), "_") }
