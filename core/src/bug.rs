//! Mistakes on purpose, one at a time, to test the tests: a test that cannot fail proves nothing.

macro_rules! bugs {
    ($(#[$about:meta])* $kind:ident: $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $kind {
            $($(#[$doc])* $name,)*
        }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];
        }
    };
}

bugs! {
    /// A mistake that a node makes.
    Bug:
    /// A hop that comes again is done again.
    RepeatRuns,
    /// An intermediate answer that comes again is delivered again.
    AnswerTwice,
    /// The end is delivered before all answers that it counts.
    EndTooEarly,
    /// An end that comes again is delivered again.
    EndTwice,
    /// Moving costs no hop.
    HopsForFree,
    /// The origin of a silent chain waits for ever.
    OriginWaitsForEver,
    /// A chain whose origin is gone goes on until its deadline.
    OrphansGoOn,
    /// How long the origin has not been reached is forgotten whenever a chain moves.
    OrphansMoveOn,
    /// A hop of a cancelled chain that arrives late runs.
    CancelForgotten,
    /// A merge host goes on before the last branch has ended.
    MergeTooEarly,
    /// A merge host counts a repeated end of one branch as the ends of two.
    MergeCountsRepeats,
    /// The branches of a second split have the numbers of the first one's.
    BranchNumbersAgain,
    /// The end of a sub-chain is taken for the end of the whole.
    FrameDropped,
    /// Answers are numbered from 0 again after each hop.
    AnswersRenumbered,
    /// The guest of a chain that has ended is not let go.
    GuestLeaks,
    /// A chain keeps the hops that it lends.
    HopsKept,
    /// A console line that was sent ahead is shown again.
    LineTwice,
    /// A node that was lost after it took a hop is said to have done nothing.
    LossDenied,
    /// That replies are missing whose call may have been done is forgotten when the function throws.
    SetsUncertaintyForgotten,
    /// That a function was told of an unknown outcome is forgotten when it throws.
    UncertaintyForgotten,
    /// A chain that has run out of hops names its last step instead of the one that it could not make.
    StepBefore,
    /// A chain that is flagged as a possible duplicate does what must not be done twice.
    DuplicateRuns,
    /// "Nothing was done" of a first instance is reported although a second instance may have done it.
    HarmlessErrorKept,
    /// That one instance may have done a step is forgotten when another says that it did nothing.
    LossOutlived,
    /// A step that may have been done and forgotten is taken for new.
    ForgottenIsNew,
    /// What a node remembers grows older while the node is stopped.
    AgesAsleep,
    /// An end is not sent again.
    EndSentOnce,
    /// An intermediate answer is not sent again.
    AnswerSentOnce,
    /// An answer that finds no room is acknowledged all the same.
    EarlyAnswerDropped,
    /// A sign of life of one branch is taken for one of all.
    BusyBranchSpeaks,
    /// How often a branch was silent for too long counts for all of its life, instead of in a row.
    SilencesAddUp,
    /// The listener of a sub-chain is dropped at its end, while answers are still on their way.
    ListenerGoneAtOnce,
    /// The listener of a sub-chain that has ended is kept for as long as a chain may last.
    EndedListenersStay,
    /// A hop is accepted before its state has come.
    AcceptedHeadless,
    /// A chain whose state has not come shows signs of life, which count as acceptance.
    HeadlessBeats,
    /// Answers are held back beyond the room for them.
    HoldsWithoutBound,
    /// Answers that are held back are bounded in number, and not in bytes.
    HeldUnweighed,
    /// An origin tracks more branches of a chain than there is room for.
    HeardWithoutBound,
    /// A function that is sent along with a hop does not count in its chain's bytes.
    CodeRidesFree,
    /// At a merge, answers of branches beyond those that can be counted are left out of the count.
    AnswersUncounted,
    /// Branches begin for which there is no room.
    BranchesWithoutRoom,
    /// An acceptance counts from any node.
    StrangersAccept,
    /// A later step of one branch counts as acceptance of the hops of all branches, of all chains.
    AnyBranchAccepts,
    /// Any node may stop any chain.
    StrangersCancel,
    /// The entry node believes any node that says that a part of an outcome has arrived.
    StrangersReceive,
    /// When a chain is over, it is not stopped at the nodes that were given up, and its origin takes steps that come from there.
    StraysGoOn,
    /// A cancellation ends what is here, and is not passed on.
    CancelNotPassedOn,
    /// A cancellation is sent once, whether or not it arrives.
    CancelSentOnce,
    /// Late news that a service is elsewhere is taken for the answer to a call that was sent again meanwhile.
    LateNewsCounts,
    /// The entry node of a chain does not remember where it was heard of.
    EntryForgetsHosts,
    /// A call without an answer in time is said not to have been made.
    LateCallDenied,
    /// A possible duplicate counts from a later lost step, instead of the first one.
    DuplicateReplaced,
    /// A hop does not say that its chain is a possible duplicate.
    DuplicateDropped,
    /// A durable step that may have been done is done by another node.
    DurableElsewhere,
    /// The first way of a chain goes on where a later one has been.
    FirstWayNotFenced,
    /// The entry node of a chain is not named to nodes that cannot dial its origin.
    EntryForgotten,
    /// A function that one node does not have is looked for at no other.
    OneSourceAsked,
    /// Each branch may make all the calls that the chain may make.
    HopsNotShared,
    /// A hop that was refused, and comes again, runs.
    RefusalForgotten,
    /// That the outcome of a branch is unknown is forgotten when its parent throws.
    BranchUncertaintyForgotten,
    /// A right's end counts as all of its replies.
    EndOvertakes,
    /// A reply is delivered after the end of its set.
    ReplyAfterEnd,
    /// A right that was delegated is not awaited.
    DelegateNotCounted,
    /// An end that comes twice counts for two.
    CountTwice,
    /// That a right ended only because time ran out is not reported.
    LateNotTold,
    /// A call that is answered many times goes on when the function that reads its replies has moved away or ended.
    SetOutlivesReader,
    /// The node that has a delegated right is not told that nobody waits for it.
    CancelMissesDelegate,
    /// A look-up made because a node has left a service finds the service at that node again.
    LeftNodeFound,
    /// A node goes on serving what it has moved to another.
    TwoOwners,
    /// Entries that one peer causes evict the tombstones and fences of others.
    StrangersEvict,
    /// A hop or call that is refused fences other ways of its chain.
    RefusedFences,
    /// What became of a step is told whenever it is asked for.
    RepeatsAlwaysAnswered,
    /// One peer may take all the room that there is.
    PeerTakesAll,
    /// A merge host keeps the ends of branches whatever their size.
    EndsUnweighed,
    /// Each number that a node of one address chooses has a share of its own.
    NumbersHaveShares,
}

bugs! {
    /// A mistake that a node makes with messages.
    MessageBug:
    /// A mailbox takes more than it has room for.
    NoRoomNeeded,
    /// Anybody may say that a long message has been read.
    StrangersTake,
    /// Anybody may answer.
    StrangersAnswer,
    /// What nobody reads is held beyond its time.
    HeldForEver,
    /// What one partner does not read is held at the cost of all others.
    OnePeerHoldsAll,
    /// Anybody may say that a call cannot be mapped.
    StrangersSendBack,
}

bugs! {
    /// A mistake that a node makes with segments.
    SegmentBug:
    /// A request is done although it has the generation of an earlier segment with the same number.
    StaleAccepted,
    /// A write that waits for its turn is checked only on arrival, and done although the segment was revoked meanwhile.
    RevokeOvertaken,
    /// A grant is not counted down.
    GrantTwice,
    /// Writes are done as they come, whatever their turn.
    WritesOvertake,
    /// The rights of an importer stay after they were taken back.
    RightsStay,
}
