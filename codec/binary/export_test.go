package binary

import "testing"

// HideMaps makes the package use maps as package reflect lets it: it copies their
// entries.
func HideMaps(t *testing.T) {
	hadCursor, hadAssign := cursor, assignable
	t.Cleanup(func() { cursor, assignable = hadCursor, hadAssign })
	cursor.found, assignable = false, false
}

// HasCursor reports whether entries of maps are read in place.
func HasCursor() bool { return cursor.found }
