package main

import (
	"github.com/mainstemdev/mainstem/bench/contenders/actor"
	"github.com/mainstemdev/mainstem/bench/contenders/alert"
	"github.com/mainstemdev/mainstem/bench/contenders/codec"
	"github.com/mainstemdev/mainstem/bench/contenders/domain"
	"github.com/mainstemdev/mainstem/bench/contenders/event"
	"github.com/mainstemdev/mainstem/bench/contenders/footprint"
	"github.com/mainstemdev/mainstem/bench/contenders/kv"
	"github.com/mainstemdev/mainstem/bench/contenders/stream"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// suites returns every suite with all its contenders, one line each: the only
// list of them. Call it again for fresh entries.
func suites() []suite.Suite {
	return []suite.Suite{
		kv.Suite(),
		event.Suite(),
		domain.Suite(),
		alert.Suite(),
		stream.Suite(),
		actor.Suite(),
		codec.Suite(),
		footprint.Suite(),
	}
}
