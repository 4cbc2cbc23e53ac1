package natslog

import "github.com/nats-io/nats.go"

// OpenWithoutTail opens a new log that never sees what its stream holds, but what it has
// written itself.
func OpenWithoutTail(address string, o *Options) (*Log, error) {
	conn, err := nats.Connect(address, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)}, o.Connect...)...)
	if err != nil {
		return nil, err
	}
	l, _, err := newLog(conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.owned = true
	l.running.Add(2)
	go l.watch(conn.StatusChanged(nats.CONNECTED))
	go l.commits()
	return l, nil
}
