//! Does what the machines say.

use std::{
    cell::Cell,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, TryLockError, atomic::Ordering},
    task::{Context as TaskContext, Poll, Waker, ready},
    time::{Duration, Instant},
};

use catena_core::{Action, Answer, Party, SessionId, Ticket};
use catena_guest::{Image, Start};
use catena_wire::{
    Encoded, Exception, Fault, Hash, Message, NodeRef, PossibleDuplicate, StepKey, StepLimits, Value, names,
};
use futures_util::FutureExt;
use tokio::{sync::oneshot, task::AbortHandle};

use super::{
    Shell, UnderWay,
    guests::{Basis, Event, elapsed_us},
    let_go, lock,
};
use crate::{
    Context, RunOptions, Service,
    blobs::Tally,
    durable::fingerprint_of,
    replying::{Complete, Right, list_of},
    service::Running,
};

/// Actions done in a row before the task yields: a long series of local calls must not block the link that brought it.
const ACTIONS_IN_A_ROW_MAX: usize = 64;

/// Services that finish at once may cause further actions in the same call, and so on. This limits the nesting; the rest becomes a task.
const NESTED_MAX: u8 = 8;

/// Listings that one peer may have asked for and that are being made.
const LISTINGS_ASKED_MAX: usize = 8;

/// The result of one look at the pending actions.
#[allow(clippy::large_enum_variant, reason = "it lives no longer than it takes to look at it")]
enum Drove {
    /// There may be more.
    On,
    /// Code to run while others drive; for a guest that resumes, with its function if that is loaded.
    ToCode(Action, Option<Arc<Image>>),
    /// There is nothing to do, or another thread is doing it.
    Away,
}

/// A future that could not finish at once, as a task. Thousands may wait, so it is no larger than what it has to keep.
struct Later<F> {
    shell: Arc<Shell>,
    future: F,
}

impl<F: Future<Output = ()> + Unpin> Future for Later<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let _inside = this.shell.enter_code();
            ready!(this.future.poll_unpin(context));
        }
        this.shell.drive();
        Poll::Ready(())
    }
}

thread_local! {
    static NESTED: Cell<u8> = const { Cell::new(0) };
}

/// One more level of nesting on this thread's stack.
struct Nested;

impl Nested {
    fn enter() -> Option<Self> {
        let depth = NESTED.get();
        (depth < NESTED_MAX).then(|| {
            NESTED.set(depth + 1);
            Self
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

impl Shell {
    /// Does the pending actions, in the order in which the machines give them. What has to wait continues as a task of its own.
    ///
    /// One thread drives at a time, so that no answer is delivered after the end, and no function is looked for before it is kept. A thread that runs a guest
    /// or a service first lets others drive.
    pub(crate) fn drive(self: &Arc<Self>) {
        let Some(_nested) = Nested::enter() else { return self.drive_later() };
        let _runtime = self.runtime.enter();
        for _ in 0..ACTIONS_IN_A_ROW_MAX {
            match self.drive_once() {
                Drove::On => {}
                Drove::ToCode(action, image) => {
                    if self.core().has_actions() {
                        self.drive_later();
                    }
                    self.ends.leave_to_others();
                    self.sessions.tidy();
                    let _inside = self.enter_code();
                    self.perform(action, image);
                }
                Drove::Away => return self.sessions.tidy(),
            }
        }
        self.sessions.tidy();
        self.drive_later();
    }

    /// Does the next action, unless another thread drives or the action runs foreign code.
    fn drive_once(self: &Arc<Self>) -> Drove {
        // The driving thread looks again after it has released the lock.
        let driving = match self.driving.try_lock() {
            Ok(driving) => driving,
            // The lock guards no data that a panic could have left inconsistent.
            Err(TryLockError::Poisoned(driving)) => driving.into_inner(),
            Err(TryLockError::WouldBlock) => return Drove::Away,
        };
        let action = self.core().poll_action();
        let Some(action) = action else {
            drop(driving);
            return self.park();
        };
        let mut image = None;
        if let Action::Resume { code, .. } | Action::Branch { code, .. } = &action {
            image = self.loaded(*code);
            if image.is_none() && self.store.get(*code).is_none() {
                let now = self.now();
                self.core().on_code_absent(now, action);
                return Drove::On;
            }
        }
        if runs_code(&action) {
            self.prepare(&action);
            return Drove::ToCode(action, image);
        }
        self.perform(action, None);
        Drove::On
    }

    /// There was nothing to do. Events that arrived since then found this thread driving, and left them to it; so it looks once more.
    fn park(&self) -> Drove {
        let (more, next) = {
            let core = self.core();
            self.note_kept(&core);
            (core.has_actions(), core.next_timeout())
        };
        if more {
            return Drove::On;
        }
        self.alarm.set(next.map_or(u64::MAX, catena_core::Time::as_us));
        Drove::Away
    }

    /// One such task at a time is enough: it starts the next if there is more than it can do.
    pub(super) fn drive_later(self: &Arc<Self>) {
        if self.wake_requested.swap(true, Ordering::AcqRel) {
            return;
        }
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            shell.wake_requested.store(false, Ordering::Release);
            shell.drive();
        });
    }

    /// Prepares for the action to be done while others drive: what follows for this guest or service may happen while it runs.
    fn prepare(&self, action: &Action) {
        match action {
            Action::Begin { session, .. } | Action::Resume { session, .. } | Action::Branch { session, .. } => {
                self.sessions.open(*session);
            }
            Action::RunService { ticket, .. } => drop(lock(&self.running).insert(*ticket, UnderWay::default())),
            _ => {}
        }
    }

    fn perform(self: &Arc<Self>, action: Action, image: Option<Arc<Image>>) {
        match action {
            Action::Send { to, message, receipt, urgency, via } => self.send_by(to, message, receipt, urgency, via),
            Action::RunService {
                ticket,
                service,
                function,
                params,
                budget,
                credentials,
                key,
                duplicate,
                right,
                by,
            } => {
                let Some(known) = self.service(&service) else { return drop(lock(&self.running).remove(&ticket)) };
                // A chain keeps its own hops and pays one for the step; whatever the step calls in turn has as many as any call.
                let hops_left = if key.is_some() { RunOptions::default().hops_max } else { budget.hops_left() };
                let (right, gathered) = self.right_of(right, known.is_replying(&function), hops_left);
                let context = self.context((ticket, by), (budget.time_left_us(), hops_left), credentials, key, right);
                self.run_service(ticket, (known, function), params, context, gathered, duplicate);
            }
            Action::RightChanged(right) => self.right_changed(&right),
            Action::CancelService(ticket) => {
                // A function without a task is in its first poll, and finds its entry removed after that.
                let cancelled = lock(&self.running).remove(&ticket).unwrap_or_default();
                cancelled.task.iter().for_each(AbortHandle::abort);
                let_go(cancelled.listens);
                self.offering.done.notify_waiters();
            }
            Action::Begin { session, code, input, started_at_ms, seed, limits, by } => {
                let event = Event::Start(input, Start { started_at_ms, seed });
                self.run_guest(session, Basis::Image(by, code), limits, event);
            }
            Action::Resume { session, code, continuation, call, result, limits, by } => {
                let basis = Basis::Continuation(by, code, image, continuation);
                self.run_guest(session, basis, limits, Event::Settled(call, result));
            }
            Action::Branch { session, code, continuation, call, index, limits, by } => {
                let basis = Basis::Continuation(by, code, image, continuation);
                self.run_guest(session, basis, limits, Event::Branch(call, index));
            }
            Action::Settle { session, call, result } => {
                self.run_guest(session, Basis::Live, StepLimits::UNCHANGED, Event::Settled(call, result));
            }
            Action::Suspend { session, with_code } => {
                let suspend = Arc::clone(self).suspend(session, with_code);
                self.here_or_later(Box::pin(suspend));
            }
            Action::Discard(session) => drop(self.sessions.remove(session)),
            Action::CheckCode { session, code, bytes } => self.check_code(session, code, bytes),
            Action::StoreCode { code, bytes } => {
                let stored = self.keep_code(code, &bytes);
                if stored.is_ok() && self.settings.repository {
                    self.push_code(code, bytes);
                }
                let now = self.now();
                self.core().on_code_stored(now, code, stored);
            }
            Action::ServeCode { code, to } => self.serve_code(code, to),
            Action::Resolve { lookup, service, avoid } => self.resolve(lookup, service, avoid),
            Action::AbandonLookup(lookup) => self.abandon_lookup(lookup),
            Action::FetchCode(code) => self.fetch_code(code),
            Action::Offered { from, entries } => self.offered(&from, entries),
            Action::ServeResolvers { id, service, to, by } => self.serve_resolvers(id, service, to, by),
            Action::ResolversSaid { id, answers } => self.questions.answered(id, answers),
            Action::ServeListing { id, to } => self.serve_listing(id, to),
            Action::Listing { id, entries } => self.listings.answered(id, entries),
            Action::Reply(chain, replied) => self.reply(chain, replied),
            Action::Heard(key, value) => self.hear(&key, value),
            Action::HeardEnd(key) => self.stop_listening(&key),
            Action::CallDone(id, result) => {
                if let Some(waiting) = lock(&self.calls).remove(&id) {
                    let _ = waiting.send(result);
                }
            }
        }
    }

    /// Polls a future at once, and makes it a task if it has to wait. After the task, the actions that it caused are done.
    pub(super) fn here_or_later(
        self: &Arc<Self>,
        mut future: impl Future<Output = ()> + Send + Unpin + 'static,
    ) -> Option<AbortHandle> {
        if future.poll_unpin(&mut TaskContext::from_waker(Waker::noop())).is_ready() {
            return None;
        }
        Some(self.later(future))
    }

    /// Makes it a task; afterwards, does the actions that it caused.
    fn later(self: &Arc<Self>, future: impl Future<Output = ()> + Send + Unpin + 'static) -> AbortHandle {
        self.runtime.spawn(Later { shell: Arc::clone(self), future }).abort_handle()
    }

    fn context(
        self: &Arc<Self>,
        (ticket, by): (Ticket, Party),
        (time_left_us, hops_left): (u64, u32),
        credentials: Option<Value>,
        step: Option<StepKey>,
        right: Right,
    ) -> Context {
        let (node, site) = (Arc::clone(&self.name), self.site.clone());
        Context { time_left_us, hops_left, node, site, credentials, right, step, ticket, by, shell: Arc::clone(self) }
    }

    fn run_service(
        self: &Arc<Self>,
        ticket: Ticket,
        (service, function): (Arc<Service>, String),
        params: Value,
        context: Context,
        gathered: Option<oneshot::Receiver<Complete>>,
        duplicate: Option<PossibleDuplicate>,
    ) {
        let (began, time_left_us) = (Instant::now(), context.time_left_us);
        let right = context.right.beside();
        let durable = self.settings.steps.is_some() && service.durable_functions().any(|name| name == function);
        let call = || match durable {
            true => Some(Arc::clone(self).run_once(service, function, params, context, duplicate)),
            false => service.call(&function, context, params),
        };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut running = call()?;
            let polled = running.poll_unpin(&mut TaskContext::from_waker(Waker::noop()));
            Some((running, polled))
        }));
        let (running, polled) = match polled {
            Ok(Some(polled)) => polled,
            Ok(None) => return drop(lock(&self.running).remove(&ticket)),
            Err(_) => return self.service_done(ticket, Err(panicked()), began, right),
        };
        // Most finish at once, so nothing is set up for waiting before.
        let running: Running = match (polled, gathered) {
            (Poll::Ready(Ok(Answer::Nothing)), Some(gathered)) => Box::pin(list_when_complete(gathered)),
            (Poll::Ready(result), _) => {
                let_go(running);
                return self.service_done(ticket, result, began, right);
            }
            (Poll::Pending, Some(gathered)) => Box::pin(async move {
                match running.await {
                    Ok(Answer::Nothing) => list_when_complete(gathered).await,
                    result => result,
                }
            }),
            (Poll::Pending, None) => running,
        };
        let shell = Arc::clone(self);
        let task = self.later(Box::pin(async move {
            let result =
                tokio::time::timeout(Duration::from_micros(time_left_us), AssertUnwindSafe(running).catch_unwind());
            let result = result.await.map_or_else(|_| Err(late()), |result| result.unwrap_or_else(|_| Err(panicked())));
            shell.service_done(ticket, result, began, right);
        }));
        match lock(&self.running).get_mut(&ticket) {
            Some(listed) => listed.task = Some(task),
            // It was cancelled meanwhile, or has finished already.
            None => task.abort(),
        }
    }

    fn service_done(&self, ticket: Ticket, result: Result<Answer, Exception>, began: Instant, right: Right) {
        let ended = lock(&self.running).remove(&ticket).unwrap_or_default();
        let (read, listens) = (ended.read.and_then(|read| read.bytes()), ended.listens);
        let now = self.now();
        let unheard = {
            let mut core = self.core();
            if let Some(read) = read {
                core.on_blobs_read(ticket, read);
            }
            core.on_service_done(now, ticket, result, elapsed_us(began));
            // Before the lock is released, since an answer must find its listener.
            match listens {
                Some((step, listener)) if core.hears(&step) => lock(&self.listeners).insert(step, listener),
                listens => listens.map(|(_, listener)| listener),
            }
        };
        // Without any lock: what they hold is the service's, and may come back to this node when it is dropped.
        let_go((right, unheard));
        self.offering.done.notify_waiters();
    }

    /// The counter of what a service function reads of blobs, for as long as the function runs.
    pub(crate) fn tally_of(&self, ticket: Ticket) -> Option<Arc<Tally>> {
        let mut running = lock(&self.running);
        running.get_mut(&ticket).map(|running| Arc::clone(running.read.get_or_insert_default()))
    }

    /// Runs a durable function, once its step is known to be new.
    fn run_once(
        self: Arc<Self>,
        service: Arc<Service>,
        function: String,
        params: Value,
        context: Context,
        duplicate: Option<PossibleDuplicate>,
    ) -> Running {
        Box::pin(async move {
            let (step, fingerprint) = (context.step.clone(), fingerprint_of(service.name(), &function, &params));
            let effect = async {
                match service.call(&function, context, params) {
                    Some(running) => running.await,
                    None => Err(Exception::new(names::UNKNOWN_FUNCTION, Fault::Node, "the function is gone")),
                }
            };
            match (&self.settings.steps, step) {
                (Some(steps), Some(step)) => steps.once(&step, fingerprint, duplicate, effect).await,
                _ => effect.await,
            }
        })
    }

    fn check_code(self: &Arc<Self>, session: SessionId, code: Hash, bytes: Option<bytes::Bytes>) {
        // A function that travelled with the hop is checked like one that was fetched; wrong bytes count as none.
        let stored = bytes.is_some_and(|bytes| self.has_code(code) || self.keep_code(code, &bytes).is_ok());
        if !stored && !self.has_code(code) {
            let now = self.now();
            self.core().on_code_missing(now, session, code);
        }
    }

    /// A listing is long: it is made in a task, one for each peer, which answers all that the peer has asked until then.
    fn serve_listing(self: &Arc<Self>, id: u64, to: Arc<NodeRef>) {
        let mut asked = lock(&self.listings_asked);
        let ids = asked.entry(to.id).or_default();
        if ids.len() < LISTINGS_ASKED_MAX {
            ids.push(id);
        }
        if ids.len() > 1 {
            return;
        }
        drop(asked);
        let shell = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut entries = shell.own_services();
            entries.extend(shell.peers.first(super::mesh::LISTING_ENTRIES_MAX));
            let ids = lock(&shell.listings_asked).remove(&to.id).unwrap_or_default();
            ids.into_iter().for_each(|id| shell.tell(Arc::clone(&to), Message::listing(id, entries.clone())));
        });
    }

    /// Passes a function to the repository.
    pub(crate) fn offer(self: &Arc<Self>, code: Hash, bytes: bytes::Bytes) {
        self.core().offer(code, bytes);
        self.drive();
    }

    /// Sends a message that nobody keeps track of.
    pub(super) fn tell(self: &Arc<Self>, to: Arc<NodeRef>, message: Message) {
        let message: Encoded = message.encode();
        self.send(to, message, catena_core::Receipt::None, catena_core::Urgency::Now);
    }
}

/// The list that a function gathered, once nobody can add to it any more.
async fn list_when_complete(gathered: oneshot::Receiver<Complete>) -> Result<Answer, Exception> {
    let replies = gathered.await.unwrap_or_else(|_| Err(ends()))?;
    list_of(&replies).map(Answer::Value)
}

fn ends() -> Exception {
    let message = "the node ends, with tasks that could have replied; whether the call took effect is unknown";
    Exception::new(names::NODE_LOST, Fault::Node, message).outcome_unknown()
}

fn panicked() -> Exception {
    let message = "the service function panicked; its node has the details; whether it took effect is unknown";
    Exception::new(names::SERVICE_FAILED, Fault::Service, message).outcome_unknown()
}

fn late() -> Exception {
    let message = "the service function took longer than the caller waits; whether it took effect is unknown";
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message).outcome_unknown()
}

/// Whether an action runs foreign code.
const fn runs_code(action: &Action) -> bool {
    matches!(
        action,
        Action::Begin { .. }
            | Action::Resume { .. }
            | Action::Branch { .. }
            | Action::Settle { .. }
            | Action::Suspend { .. }
            | Action::RunService { .. }
    )
}
