package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every request that is served has a header in the file that serves it, with the versions
// of the table.
func TestHeadersOfRequests(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{".", "internal/group", "internal/producer"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") {
				code.Write(text)
			}
		}
	}
	for _, a := range table() {
		name := kmsg.NameForKey(int16(a.key))
		want := fmt.Sprintf("%d to %d", a.min, a.max)
		switch a.max {
		case a.min:
			want = fmt.Sprint(a.min)
		case a.min + 1:
			want = fmt.Sprintf("%d and %d", a.min, a.max)
		}
		header := regexp.MustCompile(`(?mi)^// ([a-z]+(, | and ))*` + name + `((, | and )[a-z]+)*( \(key \d+\))?, versions? ` + want + `( \(KIP-\d+\))?\.`)
		if !header.MatchString(code.String()) {
			t.Errorf("no file has a header of the form: // %s, versions %s.", name, want)
		}
	}
}
