package logcmd

import (
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/internal/logcopy"
)

func TestCopyShowsHowFarItIs(t *testing.T) {
	text := copyText(logcopy.Progress{Phase: logcopy.Comparing, Records: 12, Bytes: 2048, Share: 0.5})
	if !strings.HasPrefix(text, "comparing  ██████████░░░░░░░░░░  50%  12 records  2 KiB") {
		t.Error(text)
	}
	notes := copyNotes(&logcopy.Report{Head: 9, Position: 7, Late: 1, Later: 1, Hidden: 1, Moving: 1, ExpiryTombstones: 1})
	if len(notes) != 6 || !strings.Contains(notes[5], "position 9") {
		t.Error(notes)
	}
}
