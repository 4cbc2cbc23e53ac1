package report

import (
	"fmt"
	"html"
	"strings"
)

// page is a document in HTML.
type page struct{ strings.Builder }

func (p *page) heading(level int, text string) {
	fmt.Fprintf(p, "<h%d>%s</h%d>\n", level, html.EscapeString(text), level)
}

func (p *page) paragraph(text string) {
	if text != "" {
		p.WriteString("<p>" + html.EscapeString(text) + "</p>\n")
	}
}

func (p *page) lines(text string) { p.WriteString("<pre>" + html.EscapeString(text) + "</pre>\n") }

func (p *page) table(t Table) {
	p.WriteString(`<div class="wide">`)
	_ = t.HTML(p) // a builder takes all
	p.WriteString("</div>\n")
}

func (p *page) picture(x Picture) {
	svg := string(x.SVG)
	if i := strings.Index(svg, "<svg"); i > 0 {
		svg = svg[i:] // an XML declaration has no place inside of HTML
	}
	p.WriteString("<figure>" + svg + "</figure>\n")
}

func (p *page) fold(title string, body func()) {
	fmt.Fprintf(p, "<details><summary>%s</summary>\n", html.EscapeString(title))
	body()
	p.WriteString("</details>\n")
}

const pageHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Bench report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 "Liberation Sans", Arial, Helvetica, sans-serif; color: #1b1f24; background: #fff; margin: 0; }
main { max-width: 1100px; margin: 0 auto; padding: 24px; }
h2 { border-bottom: 2px solid #d0d7de; padding-bottom: 4px; margin-top: 48px; }
h3 { margin-top: 32px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; border-bottom: 1px solid #d0d7de; text-align: right; white-space: nowrap; }
th.text, td.text { text-align: left; }
thead th { background: #f6f8fa; }
pre { background: #fff5f0; padding: 8px 12px; overflow-x: auto; font-size: 13px; }
figure { margin: 16px 0; }
svg { max-width: 100%; height: auto; }
summary { cursor: pointer; color: #0550ae; }
</style></head><body><main>
`
