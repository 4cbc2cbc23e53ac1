package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/ingest/syslog"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// The defaults of receivers.
const (
	DefaultQueue          = 10_000
	DefaultMaxConnections = 1000
	DefaultFrameTimeout   = 30 * time.Second
	DefaultMaxBody        = 8 << 20 // bytes
	DefaultMaxAlerts      = 10_000
	DefaultReadBuffer     = 4 << 20 // bytes
)

// ReceiverOptions are what all receivers have. Nil and zero fields mean the defaults.
type ReceiverOptions struct {
	// Mapping says what becomes of what is received. Default: [DefaultMapping].
	Mapping *Mapping
	// Queue is how many rows may wait for the sink, and 64 MiB at most. Default [DefaultQueue].
	Queue int
	// BatchRows is how many of them are inserted at a time, at most, and about 8 MiB. Default
	// [DefaultBatchRows].
	BatchRows int
	// Now is the clock. Default [time.Now].
	Now func() time.Time
	// Logger receives what could not be done, at most once a second. Default: discards.
	Logger *slog.Logger
}

func (o *ReceiverOptions) check() []error {
	var errs []error
	if o.Queue < 0 {
		errs = append(errs, fmt.Errorf("the Queue is %d: want 1 or more, or 0 for %d", o.Queue, DefaultQueue))
	}
	if o.BatchRows < 0 || o.BatchRows > MaxBatchRows {
		errs = append(errs, fmt.Errorf("BatchRows is %d: want 1 to %d, or 0 for %d", o.BatchRows, MaxBatchRows, DefaultBatchRows))
	}
	return errs
}

func (o ReceiverOptions) withDefaults(s Source) (ReceiverOptions, error) {
	var err error
	if o.Mapping == nil {
		o.Mapping, err = DefaultMapping(s)
	}
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.BatchRows = cmp.Or(o.BatchRows, DefaultBatchRows)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, err
}

// SyslogOptions configures [OpenSyslog]. Nil and zero fields mean the defaults.
type SyslogOptions struct {
	ReceiverOptions
	// MaxMessage bounds a message in bytes: of longer ones the beginning is taken.
	// Default [syslog.DefaultMaxMessage], at least [syslog.MinMaxMessage].
	MaxMessage int
	// MaxConnections is how many connections may be open; others are closed at once.
	// Default [DefaultMaxConnections].
	MaxConnections int
	// FrameTimeout is how long a message may take to come, once it has begun. Default
	// [DefaultFrameTimeout].
	FrameTimeout time.Duration
	// IdleTimeout closes a connection on which nothing has come for so long. Default: never.
	IdleTimeout time.Duration
	// ReadBuffer is what is asked of the system for datagrams that wait, in bytes.
	// Default [DefaultReadBuffer]; the system may give less.
	ReadBuffer int
	// Location is the zone of times that name none. Default [time.Local].
	Location *time.Location
}

// Validate returns an Invalid error that names every field out of range.
func (o *SyslogOptions) Validate() error {
	if o == nil {
		return nil
	}
	errs := o.check()
	if o.MaxMessage != 0 && (o.MaxMessage < syslog.MinMaxMessage || o.MaxMessage > syslog.MaxFrame) {
		errs = append(errs, fmt.Errorf("MaxMessage is %d: want %d to %d, or 0 for %d", o.MaxMessage, syslog.MinMaxMessage, syslog.MaxFrame, syslog.DefaultMaxMessage))
	}
	if o.MaxConnections < 0 || o.FrameTimeout < 0 || o.IdleTimeout < 0 || o.ReadBuffer < 0 {
		errs = append(errs, errors.New("MaxConnections, FrameTimeout, IdleTimeout and ReadBuffer cannot be below 0"))
	}
	return invalidOptions("syslog", errs)
}

func (o *SyslogOptions) withDefaults() (SyslogOptions, error) {
	var d SyslogOptions
	var err error
	if o != nil {
		d = *o
	}
	d.ReceiverOptions, err = d.ReceiverOptions.withDefaults(Syslog)
	d.MaxMessage = cmp.Or(d.MaxMessage, syslog.DefaultMaxMessage)
	d.MaxConnections = cmp.Or(d.MaxConnections, DefaultMaxConnections)
	d.FrameTimeout = cmp.Or(d.FrameTimeout, DefaultFrameTimeout)
	d.ReadBuffer = cmp.Or(d.ReadBuffer, DefaultReadBuffer)
	d.Location = cmp.Or(d.Location, time.Local)
	return d, err
}

// WebhookOptions configures [OpenWebhook]. Nil and zero fields mean the defaults.
type WebhookOptions struct {
	ReceiverOptions
	// MaxBody bounds a request in bytes. Default [DefaultMaxBody].
	MaxBody int64
	// MaxAlerts bounds the alerts in a request. Default [DefaultMaxAlerts].
	MaxAlerts int
	// Memory is what requests of more than 16 KiB draw from, five times their size, and those of
	// more than 64 alerts, 4 KiB for each one more, until they are answered; without memory for
	// 10 s they get 503. It may be shared. Nil: their number is not bounded.
	Memory *budget.Budget
}

// Validate returns an Invalid error that names every field out of range.
func (o *WebhookOptions) Validate() error {
	if o == nil {
		return nil
	}
	errs := o.check()
	if o.MaxBody < 0 || o.MaxAlerts < 0 {
		errs = append(errs, errors.New("MaxBody and MaxAlerts cannot be below 0"))
	}
	return invalidOptions("alertmanager", errs)
}

func (o *WebhookOptions) withDefaults() (WebhookOptions, error) {
	var d WebhookOptions
	var err error
	if o != nil {
		d = *o
	}
	d.ReceiverOptions, err = d.ReceiverOptions.withDefaults(Alertmanager)
	d.MaxBody = cmp.Or(d.MaxBody, DefaultMaxBody)
	d.MaxAlerts = cmp.Or(d.MaxAlerts, DefaultMaxAlerts)
	return d, err
}

func invalidOptions(op string, errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Err: errors.Join(errs...)}
}
