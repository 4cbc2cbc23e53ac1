package pebblelog

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mainstemdev/mainstem"
)

// What a group has forgotten is not missed before the group is published.
func TestForgottenKeyIsMissedWhenPublished(t *testing.T) {
	for _, history := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			log, err := OpenMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			for _, write := range []func(*mainstem.Batch){
				func(b *mainstem.Batch) { b.Put("s", []byte("k"), nil) },
				func(b *mainstem.Batch) { b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: []byte("k")}) },
			} {
				b := mainstem.NewBatch()
				b.Ensure("s", mainstem.Policy{History: history})
				write(b)
				if _, err := log.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			log.commitGate.start() // as if the group with Forget were being shown
			read := make(chan error, 1)
			go func() {
				_, err := log.Get(t.Context(), "s", []byte("k"))
				read <- err
			}()
			synctest.Wait()
			early := len(read) > 0
			log.commitGate.end()
			if err := <-read; early || !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("with history %d: %v, before the group was published: %v", history, err, early)
			}
		})
	}
}
