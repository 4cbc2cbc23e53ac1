package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/bench/internal/plot"
	"github.com/mainstemdev/mainstem/bench/internal/report"
	"github.com/mainstemdev/mainstem/bench/internal/result"
)

func (p *program) report() *cobra.Command {
	var dir, markdown, html, note string
	var asGo bool
	c := &cobra.Command{
		Use:   "report [results.json]",
		Short: "Write a report of a run: tables, Markdown, HTML",
		Long: "Write a report of a run; without flags as tables to standard output.\n\n" +
			"--dir makes a folder of it: report.md with its plots, report.html, which holds all of it and loads nothing, and the results.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := result.ReadFile(argument(args, resultFile))
			if err != nil {
				return err
			}
			if note != "" {
				f.Note = note
			}
			switch {
			case asGo:
				return report.GoBench(p.stdout, f)
			case dir != "":
				return writeReport(f, dir)
			case markdown == "" && html == "":
				return p.tables(f)
			}
			if markdown != "" {
				if err := writeTo(markdown, func(w io.Writer) error { return report.Markdown(w, f, nil) }); err != nil {
					return err
				}
			}
			if html == "" {
				return nil
			}
			return writePage(f, html)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "a folder for the whole report")
	c.Flags().StringVar(&markdown, "markdown", "", "a file for the report as Markdown, without plots")
	c.Flags().StringVar(&html, "html", "", "a file for the report as one page with its plots")
	c.Flags().StringVar(&note, "note", "", "what readers have to know, such as that the machine was shared")
	c.Flags().BoolVar(&asGo, "gobench", false, "the format of Go benchmarks, for benchstat")
	return c
}

func argument(args []string, otherwise string) string {
	if len(args) > 0 {
		return args[0]
	}
	return otherwise
}

// writeTo writes a file, and removes what there is of it if that fails.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

// writePage writes the report as HTML.
func writePage(f *result.File, path string) error {
	var pictures []report.Picture
	for _, g := range plot.Figures(f) {
		var svg bytes.Buffer
		if err := g.SVG(&svg); err != nil {
			return fmt.Errorf("draw %s: %w", g.Name, err)
		}
		pictures = append(pictures, report.Picture{Suite: g.Suite, Case: g.Case, Title: g.Title, SVG: svg.Bytes()})
	}
	return writeTo(path, func(w io.Writer) error { return report.HTML(w, f, pictures) })
}

// writeReport writes everything into dir. The plots of single cases are in the page only.
func writeReport(f *result.File, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var pictures []report.Picture
	for _, g := range plot.Figures(f) {
		if g.Case != "" {
			continue
		}
		if err := writeFigure(g, dir, "png", g.PNG); err != nil {
			return err
		}
		pictures = append(pictures, report.Picture{Suite: g.Suite, Title: g.Title, Path: g.Name + ".png"})
	}
	err := writeTo(filepath.Join(dir, "report.md"), func(w io.Writer) error { return report.Markdown(w, f, pictures) })
	if err != nil {
		return err
	}
	if err := writePage(f, filepath.Join(dir, "report.html")); err != nil {
		return err
	}
	return result.WriteFile(filepath.Join(dir, "results.json"), f)
}

func writeFigure(g plot.Figure, dir, extension string, write func(io.Writer) error) error {
	return writeTo(filepath.Join(dir, g.Name+"."+extension), write)
}

// writeFigures writes figures into dir, as PNG and SVG.
func writeFigures(figures []plot.Figure, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, g := range figures {
		if err := writeFigure(g, dir, "png", g.PNG); err != nil {
			return err
		}
		if err := writeFigure(g, dir, "svg", g.SVG); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) plot() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "plot [results.json]",
		Short: "Draw a run as PNG and SVG: times, memory, latencies, curves",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := result.ReadFile(argument(args, resultFile))
			if err != nil {
				return err
			}
			figures := plot.Figures(f)
			if err := writeFigures(figures, dir); err != nil {
				return err
			}
			fmt.Fprintf(p.stderr, "%d figures are in %s\n", len(figures), dir)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "bench-plots", "the folder to write to")
	return c
}
