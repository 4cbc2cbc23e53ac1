package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// TestEachLossOfTheReportHasAReason: nothing that the repository's report shows as lost is left
// without one, it shows the reasons as they are now, and no reason stays that it has no use for.
func TestEachLossOfTheReportHasAReason(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs", "bench")
	f, err := result.ReadFile(filepath.Join(docs, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[*reason]bool{}
	for _, v := range verdicts(f, stats.Judge) {
		if v.Outcome != stats.Lost {
			continue
		}
		r := why(&v)
		if used[r] = true; r == &unexplained {
			t.Errorf("%s/%s, %s, lost to %s: no reason is given", v.Suite, v.Case, v.Durability, v.Peer.Contender)
		}
		if !strings.Contains(string(page), escapeMarkdown(r.text)) {
			t.Errorf("docs/bench/report.md has an older reason for %s/%s; write it again: bench report docs/bench/results.json --dir docs/bench; want: %s", v.Suite, v.Case, r.text)
		}
	}
	for i := range reasons {
		if r := &reasons[i]; !used[r] {
			t.Errorf("%s %s %s: nothing is lost there for this reason any more: %s", r.cases, r.durability, r.peer, r.text)
		}
	}
}

// TestLostTableIsInTheDocument: the section has the lost cases, and is not there without any.
func TestLostTableIsInTheDocument(t *testing.T) {
	const title = "Why it was lost"
	text := func(f *result.File) string {
		var b strings.Builder
		if err := Markdown(&b, f, nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	f := runnertest.Results()
	if got := text(f); strings.Contains(got, title) {
		t.Errorf("nothing is lost, and the section is there:\n%s", got)
	}
	for i := range f.Rows {
		if r := &f.Rows[i]; r.Contender == "mainstem-pebble-os" {
			for j := range r.Samples {
				r.Samples[j].Time *= 10
			}
		}
	}
	_, section, _ := strings.Cut(text(f), title)
	section, _, _ = strings.Cut(section, "\n#")
	for _, want := range []string{"| kv/set | os | pebble-os |", "| kv/set/8-clients | os | pebble-os |"} {
		if !strings.Contains(section, want) {
			t.Errorf("%q is missing:\n%s", want, section)
		}
	}
	if strings.Contains(section, "| fsync |") || !strings.Contains(section, journalToo) {
		t.Errorf("a case that was not lost is there, or the reason is not:\n%s", section)
	}
}
