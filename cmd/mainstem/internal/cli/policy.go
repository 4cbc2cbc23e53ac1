package cli

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// AddPolicy appends what a space keeps.
func AddPolicy(f *Fields, p *mainstem.Policy) {
	f.Add("history", p.History)
	if p.MaxAge > 0 {
		f.Add("max_age_seconds", p.MaxAge.Seconds())
	}
	Opt(f, "max_bytes", p.MaxBytes)
	Opt(f, "no_feed", p.NoFeed)
}

// PolicyText says what a space keeps, as in "history 3, max age 24h0m0s".
func PolicyText(p *mainstem.Policy) string {
	parts := []string{fmt.Sprintf("history %d", p.History)}
	if p.History == 0 {
		parts[0] = "history all"
	}
	if p.MaxAge > 0 {
		parts = append(parts, "max age "+p.MaxAge.String())
	}
	if p.MaxBytes > 0 {
		parts = append(parts, "max bytes "+Number(p.MaxBytes))
	}
	if p.NoFeed {
		parts = append(parts, "no feed")
	}
	return strings.Join(parts, ", ")
}
