package journal_test

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// Two frames, of which one is on stable storage, and a second life.
func Example() {
	fs := vfs.NewMem() // or vfs.Default
	j, err := journal.Open(fs, "journal", journal.Options{Create: true})
	if err != nil {
		panic(err)
	}
	last, err := j.Commit(mainstem.Fsync, journal.Frame{Count: 2, Effects: []byte("two records")})
	fmt.Println(last, err)
	last, err = j.Commit(mainstem.OS, journal.Frame{Count: 1, Effects: []byte("and another")})
	fmt.Println(last, err, "durable:", j.Durable())
	if err := j.Close(); err != nil {
		panic(err)
	}

	j, err = journal.Open(fs, "journal", journal.Options{Replay: func(f journal.Frame) error {
		fmt.Printf("positions %d to %d: %s\n", f.First, f.Last(), f.Effects)
		return nil
	}})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	// Output:
	// 2 <nil>
	// 3 <nil> durable: 2
	// positions 1 to 2: two records
	// positions 3 to 3: and another
}
