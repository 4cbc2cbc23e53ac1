package server

import (
	"context"

	"github.com/mainstemdev/mainstem/topic"
)

// startBackground starts the background work of views: the retention and compaction of topics.
func (n *Server) startBackground(context.Context) (err error) {
	n.topics, err = topic.Open(n.log, &topic.Options{
		Every: n.config.UpkeepEvery, CompactionBytes: int(n.config.Compaction),
		MaxMessage: n.config.limits().WithDefaults().MaxValue, Logger: n.logger,
		Memory: n.memory.Child("decompression", 0),
	})
	n.host = n.newHost()
	return err
}

func (n *Server) stopBackground(context.Context) error { return n.topics.Close() }
