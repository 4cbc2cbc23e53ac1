// Package domain holds the contenders of the domain suite, one in each file. To add one, write a file with
// a function that returns its [domain.Factory], and a line in [Factories].
package domain

import (
	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/domain"
)

// Factories returns all contenders.
func Factories() []domain.Factory { return append(mainstemLogs(), byHand()) }

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    domain.Name,
		About:   "Toolkits of event sourcing: aggregates that are saved and loaded, commands and what they go through.",
		Entries: domain.Entries(Factories()...),
		Servers: engines.Servers(),
	}
}
