package plot_test

import (
	"bytes"
	"encoding/xml"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/plot"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
)

func TestFigures(t *testing.T) {
	want := map[string]bool{
		"kv-time": true, "kv-memory": true, "kv-set-clients": true, "kv-scale-set-scale": true, "kv-set-latency": true,
		"kv-set-8-clients-latency": true, "kv-set-32-clients-latency": true, "kv-scale-set-latency": true, "footprint-resident": true,
	}
	for _, g := range plot.Figures(runnertest.Results()) {
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

// TestEdgesKeepTheirColour: a contender has its colour in a PNG too, however few of its
// pixels there are: no pixel is far from what was drawn.
func TestEdgesKeepTheirColour(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 200, 200))
	draw.Draw(m, m.Bounds(), image.White, image.Point{}, draw.Src)
	// Twenty hues in many shades each, of which a row of pixels has one each.
	for hue := range 20 {
		c := plot.Color("contender-" + string(rune('a'+hue)))
		for shade := range 100 {
			mix := func(v uint8) uint8 { return uint8((int(v)*shade + 255*(100-shade)) / 100) }
			m.Set(shade, hue*7, color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255})
		}
	}
	var b bytes.Buffer
	if err := plot.WritePNG(&b, m); err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	for y := range 200 {
		for x := range 200 {
			want := m.RGBAAt(x, y)
			r, g, bl, _ := got.At(x, y).RGBA()
			for i, d := range []int{int(r>>8) - int(want.R), int(g>>8) - int(want.G), int(bl>>8) - int(want.B)} {
				if d > 16 || d < -16 {
					t.Fatalf("pixel %d,%d differs by %d in channel %d", x, y, d, i)
				}
			}
		}
	}
}

// TestLegendSaysTheTransport: of contenders that are not in the process.
func TestLegendSaysTheTransport(t *testing.T) {
	for _, g := range plot.Figures(runnertest.Results()) {
		if g.Name != "kv-time" && g.Name != "kv-set-clients" {
			continue
		}
		var svg bytes.Buffer
		if err := g.SVG(&svg); err != nil {
			t.Fatal(err)
		}
		if text := svg.String(); !strings.Contains(text, ">server (memory) · TCP<") || !strings.Contains(text, ">bbolt (fsync)<") {
			t.Errorf("%s does not say that the server is behind a socket", g.Name)
		}
	}
}
