package lint

import "regexp"

// retired are the words that docs/words.md retires.
var retired = []retiredWord{
	{names: []string{"settle", "settled", "settles", "settling"}, prose: word(`settl(e|es|ed|ing)`), instead: "confirm or resolve"},
	{names: []string{"demand", "demands", "demanded"}, instead: "addCondition"},
	{names: []string{"owe", "owes", "owed"}, instead: "scheduleSync, pending"},
	{names: []string{"flight", "flights"}, instead: "commitGate", in: []string{"engine/pebblelog"}},
	{names: []string{"heads"}, instead: "keyState", in: []string{"engine/pebblelog"}},
	{names: []string{"ghost", "ghosts"}, prose: word(`ghosts?`), instead: "versionMarker"},
	{names: []string{"told"}, instead: "lastReported"},
	{names: []string{"paid", "room"}, instead: "reservation", in: []string{"wire", "internal/budget"}},
	{names: []string{"shows"}, instead: "projectedFrom, reservedBy", in: []string{"wire/kafka"}},
	{names: []string{"pretence"}, prose: word(`pretences?`), instead: "dummySecret"},
	{names: []string{"recent"}, instead: "topicCache", in: []string{"wire/kafka"}},
	{names: []string{"figures"}, instead: "metrics", in: []string{"server"}},
	{names: []string{"guide"}, instead: "router", in: []string{"actor"}},
	{names: []string{"hop", "hops"}, instead: "forwardGen", in: []string{"actor"}},
	{names: []string{"parcel", "parcels"}, instead: "envelope", in: []string{"actor", "wire"}},
	{names: []string{"door", "doors", "doorway"}, instead: "admission"},
	{names: []string{"look", "looks"}, instead: "refresh", in: []string{"actor/cluster/shard"}},
	{names: []string{"place", "places"}, instead: "shardState", in: []string{"actor/cluster/shard"}},
	{names: []string{"orders"}, instead: "controls, requests", in: []string{"actor/cluster"}},
	{names: []string{"part", "parts"}, instead: "component", in: []string{"server"}},
	{names: []string{"tie", "ties", "untie"}, instead: "links", in: []string{"actor"}},
	{names: []string{"judgment", "judgments"}, prose: word(`judgments?`), instead: "peerTypes"},
	{names: []string{"verdict", "verdicts"}, instead: "typeAck", in: []string{"actor"}},
	{names: []string{"puzzle", "puzzles"}, instead: "unknownTypes"},
	{names: []string{"inter", "interred"}, instead: "terminate", in: []string{"actor"}},
	{names: []string{"bury", "buried", "buries"}, prose: word(`bur(y|ies|ied)`), instead: "finalize"},
	{names: []string{"hasten", "hastened"}, prose: word(`hasten(s|ed)?`), instead: "priorityQueue"},
	{names: []string{"obey", "obeys"}, instead: "handleSignal"},
	{names: []string{"rare"}, instead: "coreExtras", in: []string{"actor"}},
	{names: []string{"breed", "breeds"}, prose: word(`breeds?`), instead: "typeState"},
	{names: []string{"kids"}, prose: word(`kids`), instead: "children"},
	{names: []string{"whom"}, prose: word(`whom`), instead: "who, or a sentence with the noun"},
	{names: []string{"whoever"}, prose: word(`who(m)?ever`), instead: "the caller, the one that, anybody who"},
	{names: []string{"forever"}, prose: word(`for ever`), instead: "without end, never expires, always"},
	{names: []string{"vain"}, prose: word(`in vain`), instead: "without success"},
	{names: []string{"affair"}, prose: word(`affairs?`), instead: "business, or what it is about"},
}

// word matches a word or phrase, in either case.
func word(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + pattern + `)\b`) }
