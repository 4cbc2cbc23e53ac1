package natslog

import "github.com/nats-io/nats.go"

// OpenWithoutTail opens a new log that never sees what its stream holds, but what it has
// written itself.
func OpenWithoutTail(address string, o *Options) (*Log, error) {
	conn, err := connect(address, o.withDefaults().Timeout, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)}, o.Connect...)...)
	if err != nil {
		return nil, err
	}
	l, _, err := newLog(conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.owned, l.loaded = true, true
	l.running.Add(2)
	go l.watch(conn.StatusChanged(nats.CONNECTED))
	go l.commits()
	return l, nil
}

// Asking reports whether the committer waits for an answer of the servers.
func (l *Log) Asking() bool {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.queue.mu.give != nil
}

// Waiting returns how many requests wait for the committer.
func (l *Log) Waiting() int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return len(l.queue.mu.waiting)
}

// Keys returns how many keys of a space the state remembers.
func (l *Log) Keys(space string) int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.st.spaces[space].keys)
}

// Miscounted returns the sequence of a unit whose implied facts are not as many as it says, or 0.
func (l *Log) Miscounted() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	implied := map[*unit]int{}
	for _, sp := range l.st.byID {
		for _, k := range sp.keys {
			if k.implied {
				implied[k.latest]++
			}
		}
	}
	for seq, u := range l.st.units {
		if u.implied != implied[u] || u.implied > u.refs {
			return seq
		}
	}
	return 0
}

// Sent returns how many messages the log has sent to its servers.
func (l *Log) Sent() uint64 { return l.conn.Stats().OutMsgs }
