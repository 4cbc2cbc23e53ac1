package binary

import "testing"

// HideMaps makes the package use maps as package reflect lets it: it copies their
// entries.
func HideMaps(t *testing.T) {
	hadCursor := cursor
	t.Cleanup(func() { cursor = hadCursor })
	cursor.found = false
}

// HasCursor reports whether entries of maps are read in place.
func HasCursor() bool { return cursor.found }
