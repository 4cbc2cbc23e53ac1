package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/producer"
)

// Produce, versions 0 to 13.
//
//	v3   record batches and transactions (KIP-98); older formats of messages are not stored
//	v7   Zstandard (KIP-110)
//	v8   which record is wrong, and why (KIP-467): the message is there, the records are not
//	v10  the current leader, where it is another (KIP-951): it never is
//	v12  producing to a partition adds it to the transaction (KIP-890)
//	v13  topics by ID (KIP-516)
//
// All batches of a request are one commit.

// What a producer can wait for, see [Server.produce].
const (
	acksAll    = -1
	acksNone   = 0
	acksLeader = 1
)

const (
	// minProduceVersion is the first that carries record batches. Versions 0 to 2 are
	// advertised and refused: librdkafka before 2.11.1 looks for them by number when it
	// decides whether it may compress (KAFKA-18659).
	minProduceVersion = 3
	// implicitTransaction is the first version in which producing to a partition adds
	// it to the transaction (KIP-890).
	implicitTransaction = 12
)

// produce stores record batches, those of one request in one commit. With acks=all it
// answers when they have the durability of the log, with acks=1 when the operating
// system has them; with acks=0 it does not answer.
func (s *Server) produce(ctx context.Context, c *conn, req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp, appends := s.produceResponse(ctx, c, req)
	if len(appends) > 0 {
		opts := producer.AppendOptions{TransactionalID: req.TransactionID, Implicit: req.Version >= implicitTransaction}
		if req.Acks != acksAll {
			opts.Durability = mainstem.OS
		}
		// A disconnect of the producer does not cancel a commit that it has asked for.
		s.producers.Append(context.WithoutCancel(ctx), opts, appends)
		s.countProduced(appends)
	}
	failed := error(nil)
	next := 0
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode == 0 {
				fillProduced(p, &appends[next])
				next++
			}
			if p.ErrorCode != 0 && failed == nil {
				failed = fmt.Errorf("produce to %s, partition %d: %w", t.Topic, p.Partition, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	if req.Acks == acksNone {
		c.failed = failed // without an answer, closing the connection is the only way to report it
		return nil
	}
	return resp
}

// produceResponse returns an answer with the errors of the partitions that cannot be
// written, and the appends for all others.
func (s *Server) produceResponse(ctx context.Context, c *conn, req *kmsg.ProduceRequest) (*kmsg.ProduceResponse, []producer.Append) {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	var appends []producer.Append
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		to, code, message := s.writable(ctx, c, req, t)
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &out.Partitions[j]
			p.Default()
			p.Partition, p.BaseOffset, p.ErrorCode = t.Partitions[j].Partition, -1, code
			if message != "" {
				p.ErrorMessage = &message
			}
			if code == 0 {
				appends = append(appends, producer.Append{Topic: to, Partition: p.Partition, Batch: t.Partitions[j].Records})
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, appends
}

// writable returns the topic that a part of a request is to be written to, or why it cannot be.
func (s *Server) writable(ctx context.Context, c *conn, req *kmsg.ProduceRequest, t *kmsg.ProduceRequestTopic) (*topic.Topic, int16, string) {
	switch {
	case req.Version < minProduceVersion:
		return nil, kerr.UnsupportedVersion.Code, ""
	case req.Acks != acksAll && req.Acks != acksNone && req.Acks != acksLeader:
		return nil, kerr.InvalidRequiredAcks.Code, ""
	}
	src, err := s.recently(ctx, t.Topic, t.TopicID)
	if err != nil {
		code := s.failure(c, "Produce", err)
		if code == kerr.UnknownTopicOrPartition.Code && t.Topic == "" {
			code = kerr.UnknownTopicID.Code
		}
		return nil, code, ""
	}
	to, ok := src.(*topic.Topic)
	if !ok {
		return nil, kerr.InvalidTopicException.Code, fmt.Sprintf("%s shows %s: what it shows is written there, not produced", src.Name(), contents(src))
	}
	return to, 0, ""
}

// fillProduced sets the result of one batch.
func fillProduced(p *kmsg.ProduceResponseTopicPartition, a *producer.Append) {
	if p.ErrorCode = a.Code; a.Code != 0 {
		if a.Message != "" {
			p.ErrorMessage = &a.Message
		}
		return
	}
	p.BaseOffset, p.LogStartOffset = a.Base, a.Start
	if !a.Time.IsZero() {
		p.LogAppendTime = a.Time.UnixMilli()
	}
}
