package plot_test

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/plot"
	"github.com/mainstemdev/mainstem/bench/internal/racetest"
)

func TestFigures(t *testing.T) {
	want := map[string]bool{
		"kv-time": true, "kv-memory": true, "kv-set-clients": true, "kv-scale-set-scale": true, "kv-set-latency": true,
		"kv-set-8-clients-latency": true, "kv-set-32-clients-latency": true, "kv-scale-set-latency": true, "footprint-resident": true,
	}
	for _, g := range plot.Figures(racetest.Results()) {
		if !want[g.Name] {
			t.Errorf("%s was not expected, or is there twice", g.Name)
		}
		delete(want, g.Name)
		var b bytes.Buffer
		if err := g.PNG(&b); err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		if s := img.Bounds().Size(); s.X < 1000 || s.Y < 200 {
			t.Errorf("%s has %v pixels", g.Name, s)
		}
		var svg, again bytes.Buffer
		if err := g.SVG(&svg); err != nil {
			t.Fatal(err)
		}
		if err := g.SVG(&again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(svg.Bytes(), again.Bytes()) {
			t.Errorf("%s is drawn differently each time", g.Name)
		}
		for d := xml.NewDecoder(&svg); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", g.Name, err)
			}
		}
	}
	for name := range want {
		t.Errorf("%s was not drawn", name)
	}
}

func TestColors(t *testing.T) {
	seen := map[any]string{}
	for _, c := range []string{
		"mainstem-pebble-fsync", "mainstem-pebble-os", "mainstem-pebble-memory", "mainstem-nats", "mainstem-postgres", "mainstem-remote",
		"nats-kv", "bbolt", "badger", "pebble", "pgx", "redis", "etcd", "kafka",
	} {
		if other := seen[plot.Color(c)]; other != "" {
			t.Errorf("%s and %s have the same colour", c, other)
		}
		seen[plot.Color(c)] = c
	}
	if plot.Color("bbolt") != plot.Color("bbolt-fsync") {
		t.Error("a variant of bbolt has no colour of bbolt")
	}
}
