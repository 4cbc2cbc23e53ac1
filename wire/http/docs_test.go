package viewhttp_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const guide = "../../docs/http.md"

var rewrite = flag.Bool("rewrite", false, "write the table of statuses of docs/http.md anew")

// shown is a command of the guide, and what it prints.
type shown struct {
	line          int
	command, want string
}

// examples returns the commands of the guide: lines that begin with "$ " in blocks of the
// language console, and those that a backslash or an open quote continues.
func examples(t testing.TB) []shown {
	t.Helper()
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	var all []shown
	inside := false
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			all = append(all, shown{i + 1, line[2:], ""})
		case open(all[len(all)-1].command):
			all[len(all)-1].command += "\n" + line
		default:
			all[len(all)-1].want += line + "\n"
		}
	}
	return all
}

func open(command string) bool {
	return strings.HasSuffix(command, `\`) || strings.Count(command, "'")%2 == 1
}

// varying is what differs from run to run: times, and positions of the log.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|"(position|firstPosition|lastPosition)":"\d+"|^id: \d+$`)

// TestExamplesOfTheGuide runs every command of docs/http.md, in order, on one new server.
func TestExamplesOfTheGuide(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "sed", "grep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the commands of %s need %s: %v", guide, tool, err)
		}
	}
	c := serve(t, nil)
	all := examples(t)
	if len(all) < 15 {
		t.Fatalf("only %d commands found in %s", len(all), guide)
	}
	for _, x := range all {
		command := strings.ReplaceAll(x.command, "http://127.0.0.1:8080", c.base)
		got, err := runExample(t, command, strings.Count(x.want, "\n"))
		if err != nil {
			t.Fatalf("%s:%d: %v", guide, x.line, err)
		}
		if !slices.Equal(varied(got), varied(x.want)) {
			t.Errorf("%s:%d: %s\nprints %s\nnot    %s", guide, x.line, x.command, got, x.want)
		}
	}
}

func varied(text string) []string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		out = append(out, varying.ReplaceAllString(line, "…"))
	}
	return out
}

// runExample runs a command until it ends, or until it has printed so many lines: a follower
// does not end by itself.
func runExample(t testing.TB, command string, lines int) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if strings.Contains(command, "curl -s -N") {
		command = "exec " + command
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var out strings.Builder
	in := bufio.NewScanner(pipe)
	in.Buffer(nil, 1<<20)
	for n := 0; n < lines && in.Scan(); n++ {
		out.WriteString(in.Text() + "\n")
	}
	if strings.HasPrefix(command, "exec ") {
		cancel()
		_ = cmd.Wait() // it was killed
		return out.String(), nil
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", command, err, complaints.String())
	}
	return out.String(), nil
}

// TestStatusesOfTheGuide: the guide has the statuses of every operation, as the description has.
func TestStatusesOfTheGuide(t *testing.T) {
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- statuses -->\n", "<!-- end of statuses -->"
	head, rest, _ := strings.Cut(string(data), begin)
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no %s", guide, end)
	}
	d, _ := describe(t, serve(t, nil))
	want := head + begin + "\n" + statusesTable(t, d) + "\n" + end + tail
	if *rewrite {
		if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		data = []byte(want)
	}
	if string(data) != want {
		t.Errorf("%s does not have the statuses as they are: go test ./wire/http -run StatusesOfTheGuide -rewrite", guide)
	}
}

// statusesTable has a row for each operation, without the statuses that all have.
func statusesTable(t testing.TB, d described) string {
	everywhere := map[string]bool{"400": true, "401": true, "500": true, "503": true, "504": true, "408": true, "413": true, "422": true}
	rows := map[string]string{}
	d.operations(t, func(path, method string, o describedOperation) {
		var own []string
		for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
			if !everywhere[status] {
				own = append(own, status)
			}
		}
		order := path + strconv.Itoa(slices.Index([]string{"GET", "PUT", "POST", "DELETE"}, method))
		rows[order] = fmt.Sprintf("| `%s` | %s | %s |\n", path, method, strings.Join(own, ", "))
	})
	var b strings.Builder
	b.WriteString("| path | method | statuses |\n|---|---|---|\n")
	for _, order := range slices.SortedFunc(maps.Keys(rows), cmp.Compare[string]) {
		b.WriteString(rows[order])
	}
	return b.String()
}
