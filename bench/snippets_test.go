package main

import (
	"testing"

	"github.com/mainstemdev/mainstem/internal/snippets"
)

// Every piece of Go code in the comments of this module compiles.
func TestSnippets(t *testing.T) {
	n, problems, err := snippets.Check("..", "bench")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d snippets", n)
	for _, p := range problems {
		t.Error(p)
	}
}
