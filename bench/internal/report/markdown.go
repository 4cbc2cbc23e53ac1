package report

import (
	"fmt"
	"strings"
)

// markdown is a document in GitHub's Markdown.
type markdown struct{ strings.Builder }

func (m *markdown) heading(level int, text string) {
	fmt.Fprintf(m, "%s %s\n\n", strings.Repeat("#", level), escapeMarkdown(text))
}

func (m *markdown) paragraph(text string) {
	if text != "" {
		m.WriteString(escapeMarkdown(text) + "\n\n")
	}
}

func (m *markdown) lines(text string) {
	m.WriteString("```text\n" + strings.ReplaceAll(text, "```", "'''") + "```\n\n")
}

func (m *markdown) table(t Table) { _ = t.Markdown(m) } // a builder takes all

func (m *markdown) fold(_ string, body func()) { body() }

func (m *markdown) picture(p Picture) {
	if p.Path != "" {
		fmt.Fprintf(m, "![%s](%s)\n\n", escapeMarkdown(p.Title), p.Path)
	}
}
