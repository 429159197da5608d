//! Values and contexts of QuickJS, made safe.
//!
//! There is one runtime with one context for the module's whole life, and one thread, so a [`Value`] needs
//! neither a lifetime nor a context beside it. An `Err(`[`Pending`]`)` says that the engine holds an exception;
//! [`take_exception`] fetches it.
#![allow(unsafe_code)]

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_int};
use core::mem::ManuallyDrop;
use core::ptr;
use core::slice;

use rquickjs_sys as q;

use crate::{heap, native};

/// What the engine's stack may take of the 1 MiB that the linker reserves.
const STACK_BYTES_MAX: u32 = 256 * 1024;
/// Cycles are looked for when this much lives; the image itself is well below. A collection writes to every object,
/// so it makes a large continuation: rarely is better than often.
const GC_BYTES: u32 = 4 * 1024 * 1024;

/// A static that only one thread can see.
pub(crate) struct Single<T>(pub(crate) T);
// Sound: the module has one thread.
unsafe impl<T> Sync for Single<T> {}

static RUNTIME: Single<Cell<*mut q::JSRuntime>> = Single(Cell::new(ptr::null_mut()));
static CONTEXT: Single<Cell<*mut q::JSContext>> = Single(Cell::new(ptr::null_mut()));

fn rt() -> *mut q::JSRuntime {
    RUNTIME.0.get()
}

fn ctx() -> *mut q::JSContext {
    CONTEXT.0.get()
}

/// The context, for the other unsafe leaf.
pub(crate) fn context() -> *mut q::JSContext {
    ctx()
}

/// The engine holds an exception.
#[derive(Debug)]
pub(crate) struct Pending;

/// What may throw.
pub(crate) type Js<T> = Result<T, Pending>;

/// A JavaScript value, owned.
#[repr(transparent)]
pub(crate) struct Value(q::JSValue);

/// What a value is at first sight.
pub(crate) enum Kind {
    Undefined,
    Null,
    Bool(bool),
    Int(i32),
    Float(f64),
    BigInt,
    String,
    Symbol,
    Object,
}

impl Drop for Value {
    fn drop(&mut self) {
        unsafe {
            if q::JS_VALUE_HAS_REF_COUNT(self.0) {
                q::JS_FreeValue(ctx(), self.0);
            }
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Value(unsafe { q::JS_DupValue(ctx(), self.0) })
    }
}

/// Sets up the runtime and its context. Called once.
pub(crate) fn init() {
    let allocator = q::JSMallocFunctions {
        js_calloc: Some(heap::c::js_calloc),
        js_malloc: Some(heap::c::js_malloc),
        js_free: Some(heap::c::js_free),
        js_realloc: Some(heap::c::js_realloc),
        js_malloc_usable_size: Some(heap::c::js_usable),
    };
    unsafe {
        let runtime = q::JS_NewRuntime2(&allocator, ptr::null_mut());
        RUNTIME.0.set(runtime);
        q::JS_SetMaxStackSize(runtime, STACK_BYTES_MAX);
        q::JS_SetGCThreshold(runtime, GC_BYTES);
        q::JS_SetInterruptHandler(runtime, Some(native::on_poll), ptr::null_mut());
        q::JS_SetModuleLoaderFunc(runtime, Some(native::on_import), None, ptr::null_mut());
        CONTEXT.0.set(q::JS_NewContext(runtime));
        native::add_module(ctx());
    }
}

/// Runs one job that waits, such as the rest of an async function. `None`: none waits.
pub(crate) fn run_job() -> Option<Js<()>> {
    let mut at = ptr::null_mut();
    match unsafe { q::JS_ExecutePendingJob(rt(), &mut at) } {
        0 => None,
        n if n < 0 => Some(Err(Pending)),
        _ => Some(Ok(())),
    }
}

/// The exception that the engine holds; it holds none afterwards.
pub(crate) fn take_exception() -> Value {
    Value(unsafe { q::JS_GetException(ctx()) })
}

/// Throws `error` from the native function that runs.
pub(crate) fn throw(error: Value) -> Pending {
    unsafe { q::JS_Throw(ctx(), error.into_raw()) };
    Pending
}

/// An error of the class that the engine's own constructor of that name makes, with a trace of where we are.
pub(crate) fn error(class: ErrorClass, message: &str) -> Js<Value> {
    let message = Value::string(message)?;
    class.constructor().call_as_constructor(&[message])
}

/// Throws a new error.
pub(crate) fn throw_error(class: ErrorClass, message: &str) -> Pending {
    match error(class, message) {
        Ok(error) => throw(error),
        Err(pending) => pending,
    }
}

/// Throws an error that the program cannot catch.
pub(crate) fn throw_uncatchable(message: &str) -> Pending {
    match error(ErrorClass::Error, message) {
        Ok(error) => {
            unsafe { q::JS_SetUncatchableError(ctx(), error.0) };
            throw(error)
        }
        Err(pending) => pending,
    }
}

/// A new `Error` without a trace: the engine adds the trace where the error is first thrown, such as at an `await`.
pub(crate) fn error_without_trace() -> Js<Value> {
    let class = with_handles(|h| unsafe { q::JS_GetClassID(h.sample_error.0) });
    Value::checked(unsafe { q::JS_NewObjectClass(ctx(), class) })
}

/// The engine's error constructors that are used here.
#[derive(Clone, Copy)]
pub(crate) enum ErrorClass {
    Error,
    TypeError,
}

impl ErrorClass {
    fn constructor(self) -> Value {
        with_handles(|h| match self {
            ErrorClass::Error => h.error.clone(),
            ErrorClass::TypeError => h.type_error.clone(),
        })
    }
}

/// A property name, interned.
#[derive(Clone, Copy)]
pub(crate) struct Name(q::JSAtom);

macro_rules! names {
    ($($field:ident = $text:literal),* $(,)?) => {
        /// The names that the engine itself uses.
        pub(crate) struct Names { $(pub(crate) $field: Name),* }
        impl Names {
            fn new() -> Self {
                Names { $($field: Name::new($text)),* }
            }
        }
    };
}

names! {
    constructor = "constructor",
    default = "default",
    fault = "fault",
    host_stack = "hostStack",
    message = "message",
    name = "name",
    params = "params",
    path = "path",
    set = "set",
    add = "add",
    stack = "stack",
    to_string = "toString",
    get_time = "getTime",
    value_of = "valueOf",
}

/// Handles that would otherwise be looked up in every turn.
struct Handles {
    error: Value,
    type_error: Value,
    big_int: Value,
    map: Value,
    set: Value,
    array_from: Value,
    sample_error: Value,
    plain_class: u32,
    names: Names,
}

static HANDLES: Single<RefCell<Option<Handles>>> = Single(RefCell::new(None));

fn with_handles<R>(read: impl FnOnce(&Handles) -> R) -> R {
    match HANDLES.0.borrow().as_ref() {
        Some(handles) => read(handles),
        None => core::arch::wasm32::unreachable(),
    }
}

/// Looks up what [`with_handles`] keeps. Called once, after [`init`].
pub(crate) fn intern() -> Js<()> {
    let global = Value(unsafe { q::JS_GetGlobalObject(ctx()) });
    let get = |text: &str| global.get(Name::new(text));
    let error = get("Error")?;
    let handles = Handles {
        sample_error: error.call_as_constructor(&[])?,
        error,
        type_error: get("TypeError")?,
        big_int: get("BigInt")?,
        map: get("Map")?,
        set: get("Set")?,
        array_from: get("Array")?.get(Name::new("from"))?,
        plain_class: unsafe { q::JS_GetClassID(Value::object()?.0) },
        names: Names::new(),
    };
    let math = get("Math")?;
    math.define(Name::new("random"), native::random_function()?)?;
    HANDLES.0.replace(Some(handles));
    // Collecting reorders the list of all objects; from here on it no longer does, which keeps images small.
    unsafe { q::JS_RunGC(rt()) };
    Ok(())
}

/// One of the names that the engine itself uses.
pub(crate) fn name(pick: impl FnOnce(&Names) -> &Name) -> Name {
    with_handles(|h| *pick(&h.names))
}

impl Name {
    /// Interned for good.
    fn new(text: &str) -> Self {
        Name(unsafe { q::JS_NewAtomLen(ctx(), text.as_ptr().cast(), text.len() as u32) })
    }
}

/// A property name that is let go when dropped.
pub(crate) struct Key(Name);

impl Key {
    pub(crate) fn new(text: &str) -> Js<Self> {
        let name = Name::new(text);
        if name.0 == 0 { Err(Pending) } else { Ok(Key(name)) }
    }
    pub(crate) fn name(&self) -> Name {
        self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        unsafe { q::JS_FreeAtom(ctx(), self.0.0) }
    }
}

/// The names of an object's own enumerable properties.
pub(crate) struct OwnNames {
    table: *mut q::JSPropertyEnum,
    len: u32,
}

impl OwnNames {
    pub(crate) fn of(object: &Value) -> Js<Self> {
        let (mut table, mut len) = (ptr::null_mut(), 0);
        let flags = (q::JS_GPN_STRING_MASK | q::JS_GPN_ENUM_ONLY) as c_int;
        let got = unsafe { q::JS_GetOwnPropertyNames(ctx(), &mut table, &mut len, object.0, flags) };
        if got < 0 { Err(Pending) } else { Ok(OwnNames { table, len }) }
    }
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
    pub(crate) fn get(&self, i: u32) -> Name {
        assert!(i < self.len);
        Name(unsafe { (*self.table.add(i as usize)).atom })
    }
}

impl Drop for OwnNames {
    fn drop(&mut self) {
        unsafe { q::JS_FreePropertyEnum(ctx(), self.table, self.len) }
    }
}

/// The UTF-8 text of a string; lone surrogates have become U+FFFD.
pub(crate) struct Text {
    bytes: *const u8,
    len: usize,
}

impl Text {
    fn of(bytes: *const core::ffi::c_char, len: u32) -> Js<Self> {
        if bytes.is_null() { Err(Pending) } else { Ok(Text { bytes: bytes.cast(), len: len as usize }) }
    }
    pub(crate) fn of_name(name: Name) -> Js<Self> {
        let mut len = 0;
        let bytes = unsafe { q::JS_AtomToCStringLen(ctx(), &mut len, name.0) };
        Text::of(bytes, len)
    }
    pub(crate) fn get(&self) -> Cow<'_, str> {
        let bytes = unsafe { slice::from_raw_parts(self.bytes, self.len) };
        match core::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(well_formed(bytes)),
        }
    }
}

/// The engine writes a lone surrogate as three bytes that are not UTF-8: one U+FFFD stands for them.
fn well_formed(bytes: &[u8]) -> String {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(triple) = bytes.get_mut(at..at + 3) {
        if triple[0] == 0xed && triple[1] >= 0xa0 {
            triple.copy_from_slice("\u{fffd}".as_bytes());
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Text {
    fn drop(&mut self) {
        unsafe { q::JS_FreeCString(ctx(), self.bytes.cast()) }
    }
}

/// A promise with the two functions that settle it.
pub(crate) struct Deferred {
    pub(crate) promise: Value,
    pub(crate) resolve: Value,
    pub(crate) reject: Value,
}

impl Deferred {
    pub(crate) fn new() -> Js<Self> {
        let mut settle = [q::JS_UNDEFINED; 2];
        let promise = Value::checked(unsafe { q::JS_NewPromiseCapability(ctx(), settle.as_mut_ptr()) })?;
        let [resolve, reject] = settle.map(Value);
        Ok(Deferred { promise, resolve, reject })
    }
}

/// How far a promise has come.
pub(crate) enum PromiseState {
    Waits,
    Fulfilled(Value),
    Rejected(Value),
}

/// Which values are sent as what.
pub(crate) enum Shape {
    Plain,
    Array,
    Bytes,
    Typed(u32),
    Date,
    Map,
    Set,
    Error,
    Function,
    Promise,
    /// An object of the engine that keeps something we cannot see.
    Opaque,
}

impl Value {
    pub(crate) const UNDEFINED: Value = Value(q::JS_UNDEFINED);
    pub(crate) const NULL: Value = Value(q::JS_NULL);

    pub(crate) fn into_raw(self) -> q::JSValue {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `raw` must be owned by the caller and not used by it again.
    pub(crate) unsafe fn from_raw(raw: q::JSValue) -> Self {
        Value(raw)
    }

    /// # Safety
    /// `argv` must hold `argc` values that live as long as the answer is used.
    pub(crate) unsafe fn borrow_args<'a>(argv: *const q::JSValue, argc: c_int) -> &'a [Value] {
        if argc <= 0 {
            return &[];
        }
        unsafe { slice::from_raw_parts(argv.cast(), argc as usize) }
    }

    fn checked(raw: q::JSValue) -> Js<Self> {
        if unsafe { q::JS_IsException(raw) } { Err(Pending) } else { Ok(Value(raw)) }
    }

    pub(crate) fn bool(b: bool) -> Self {
        Value(if b { q::JS_TRUE } else { q::JS_FALSE })
    }
    pub(crate) fn number(n: f64) -> Self {
        Value(q::JS_NewFloat64(n))
    }
    pub(crate) fn int(n: i32) -> Self {
        Value(q::JS_MKVAL(q::JS_TAG_INT, n))
    }
    pub(crate) fn big_int(n: i64) -> Js<Self> {
        Value::checked(unsafe { q::JS_NewBigInt64(ctx(), n) })
    }
    pub(crate) fn big_uint(n: u64) -> Js<Self> {
        Value::checked(unsafe { q::JS_NewBigUint64(ctx(), n) })
    }
    /// From a literal such as `0xff`.
    pub(crate) fn big_int_of(literal: &str) -> Js<Self> {
        let big_int = with_handles(|h| h.big_int.clone());
        big_int.call(&Value::UNDEFINED, &[Value::string(literal)?])
    }
    pub(crate) fn string(text: &str) -> Js<Self> {
        Value::checked(unsafe { q::JS_NewStringLen(ctx(), text.as_ptr().cast(), text.len() as u32) })
    }
    pub(crate) fn object() -> Js<Self> {
        Value::checked(unsafe { q::JS_NewObject(ctx()) })
    }
    pub(crate) fn array(items: Vec<Value>) -> Js<Self> {
        // The engine takes the items over, also when it fails.
        let items = ManuallyDrop::new(items);
        let array = unsafe { q::JS_NewArrayFrom(ctx(), items.len() as c_int, items.as_ptr().cast()) };
        let storage = unsafe { Vec::from_raw_parts(items.as_ptr() as *mut q::JSValue, 0, items.capacity()) };
        drop(storage);
        Value::checked(array)
    }
    pub(crate) fn bytes(bytes: &[u8]) -> Js<Self> {
        Value::checked(unsafe { q::JS_NewUint8ArrayCopy(ctx(), bytes.as_ptr(), bytes.len() as u32) })
    }
    /// A typed array over a copy of `bytes`; `kind` as in [`Shape::Typed`].
    pub(crate) fn typed_array(kind: u32, bytes: &[u8]) -> Js<Self> {
        let buffer = Value::checked(unsafe { q::JS_NewArrayBufferCopy(ctx(), bytes.as_ptr(), bytes.len() as u32) })?;
        let mut args = [buffer.0, q::JS_UNDEFINED, q::JS_UNDEFINED];
        Value::checked(unsafe { q::JS_NewTypedArray(ctx(), 3, args.as_mut_ptr(), kind) })
    }
    pub(crate) fn date(epoch_ms: f64) -> Js<Self> {
        Value::checked(unsafe { q::JS_NewDate(ctx(), epoch_ms) })
    }
    pub(crate) fn map() -> Js<Self> {
        with_handles(|h| h.map.clone()).call_as_constructor(&[])
    }
    pub(crate) fn set() -> Js<Self> {
        with_handles(|h| h.set.clone()).call_as_constructor(&[])
    }

    pub(crate) fn kind(&self) -> Kind {
        // Sound: the tag says which field the value holds.
        unsafe {
            match q::JS_VALUE_GET_TAG(self.0) {
                q::JS_TAG_INT => Kind::Int(q::JS_VALUE_GET_INT(self.0)),
                q::JS_TAG_BOOL => Kind::Bool(q::JS_VALUE_GET_BOOL(self.0)),
                q::JS_TAG_NULL => Kind::Null,
                q::JS_TAG_STRING | q::JS_TAG_STRING_ROPE => Kind::String,
                q::JS_TAG_OBJECT => Kind::Object,
                q::JS_TAG_SYMBOL => Kind::Symbol,
                q::JS_TAG_BIG_INT | q::JS_TAG_SHORT_BIG_INT => Kind::BigInt,
                tag if q::JS_TAG_IS_FLOAT64(tag) => Kind::Float(q::JS_VALUE_GET_FLOAT64(self.0)),
                _ => Kind::Undefined,
            }
        }
    }

    /// What an object is sent as.
    pub(crate) fn shape(&self) -> Shape {
        unsafe {
            let class = q::JS_GetClassID(self.0);
            if class == with_handles(|h| h.plain_class) {
                return Shape::Plain;
            }
            if q::JS_IsArray(self.0) {
                return Shape::Array;
            }
            let typed = q::JS_GetTypedArrayType(self.0);
            match typed {
                _ if typed == q::JSTypedArrayEnum_JS_TYPED_ARRAY_UINT8 as c_int => Shape::Bytes,
                0.. => Shape::Typed(typed as u32),
                _ if q::JS_IsArrayBuffer(self.0) => Shape::Bytes,
                _ if q::JS_IsDate(self.0) => Shape::Date,
                _ if q::JS_IsMap(self.0) => Shape::Map,
                _ if q::JS_IsSet(self.0) => Shape::Set,
                _ if q::JS_IsError(self.0) => Shape::Error,
                _ if q::JS_IsFunction(ctx(), self.0) => Shape::Function,
                _ if q::JS_IsPromise(self.0) => Shape::Promise,
                _ if q::JS_IsProxy(self.0) => Shape::Plain,
                _ => Shape::Opaque,
            }
        }
    }

    /// The name of an object's class, such as `WeakMap`.
    pub(crate) fn class_name(&self) -> Js<Text> {
        let name = Key(Name(unsafe { q::JS_GetClassName(rt(), q::JS_GetClassID(self.0)) }));
        Text::of_name(name.name())
    }

    /// Two values that are the same object have the same identity while both live.
    pub(crate) fn identity(&self) -> usize {
        unsafe { q::JS_VALUE_GET_PTR(self.0) as usize }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        unsafe { q::JS_IsUndefined(self.0) }
    }
    pub(crate) fn is_object(&self) -> bool {
        unsafe { q::JS_IsObject(self.0) }
    }
    pub(crate) fn is_string(&self) -> bool {
        unsafe { q::JS_IsString(self.0) }
    }
    pub(crate) fn is_error(&self) -> bool {
        unsafe { q::JS_IsError(self.0) }
    }
    pub(crate) fn is_function(&self) -> bool {
        unsafe { q::JS_IsFunction(ctx(), self.0) }
    }
    pub(crate) fn is_promise(&self) -> bool {
        unsafe { q::JS_IsPromise(self.0) }
    }
    pub(crate) fn is_uncatchable(&self) -> bool {
        unsafe { q::JS_IsUncatchableError(self.0) }
    }

    pub(crate) fn get(&self, name: Name) -> Js<Value> {
        Value::checked(unsafe { q::JS_GetProperty(ctx(), self.0, name.0) })
    }
    pub(crate) fn get_index(&self, i: u32) -> Js<Value> {
        Value::checked(unsafe { q::JS_GetPropertyUint32(ctx(), self.0, i) })
    }
    pub(crate) fn len(&self) -> Js<i64> {
        let mut len = 0;
        let got = unsafe { q::JS_GetLength(ctx(), self.0, &mut len) };
        if got < 0 { Err(Pending) } else { Ok(len) }
    }
    /// Defines an own property as an object literal would.
    pub(crate) fn put(&self, name: Name, value: Value) -> Js<()> {
        self.define_as(name, value, q::JS_PROP_C_W_E)
    }
    /// Defines an own property that is not enumerable.
    pub(crate) fn define(&self, name: Name, value: Value) -> Js<()> {
        self.define_as(name, value, q::JS_PROP_CONFIGURABLE | q::JS_PROP_WRITABLE)
    }
    fn define_as(&self, name: Name, value: Value, flags: u32) -> Js<()> {
        let done = unsafe { q::JS_DefinePropertyValue(ctx(), self.0, name.0, value.into_raw(), flags as c_int) };
        if done < 0 { Err(Pending) } else { Ok(()) }
    }

    pub(crate) fn call(&self, this: &Value, args: &[Value]) -> Js<Value> {
        let argv = args.as_ptr() as *mut q::JSValue;
        Value::checked(unsafe { q::JS_Call(ctx(), self.0, this.0, args.len() as c_int, argv) })
    }
    pub(crate) fn call_method(&self, name: Name, args: &[Value]) -> Js<Value> {
        self.get(name)?.call(self, args)
    }
    pub(crate) fn call_as_constructor(&self, args: &[Value]) -> Js<Value> {
        let argv = args.as_ptr() as *mut q::JSValue;
        Value::checked(unsafe { q::JS_CallConstructor(ctx(), self.0, args.len() as c_int, argv) })
    }

    /// `String(value)`.
    pub(crate) fn to_text(&self) -> Js<Text> {
        let mut len = 0;
        let bytes = unsafe { q::JS_ToCStringLen2(ctx(), &mut len, self.0, false) };
        Text::of(bytes, len)
    }
    /// The value of `JSON.stringify(value)`; undefined where there is none.
    pub(crate) fn to_json(&self) -> Js<Value> {
        Value::checked(unsafe { q::JS_JSONStringify(ctx(), self.0, q::JS_UNDEFINED, q::JS_UNDEFINED) })
    }
    pub(crate) fn to_number(&self) -> Js<f64> {
        let mut n = 0.0;
        let got = unsafe { q::JS_ToFloat64(ctx(), &mut n, self.0) };
        if got < 0 { Err(Pending) } else { Ok(n) }
    }
    /// `Array.from(value)`: what a Map or a Set holds.
    pub(crate) fn to_array(&self) -> Js<Value> {
        with_handles(|h| h.array_from.clone()).call(&Value::UNDEFINED, core::slice::from_ref(self))
    }

    /// Hands the bytes of a typed array or an ArrayBuffer to `read`.
    pub(crate) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Js<R> {
        unsafe {
            let mut len = 0;
            if q::JS_IsArrayBuffer(self.0) {
                let bytes = q::JS_GetArrayBuffer(ctx(), &mut len, self.0);
                return Ok(read(raw_bytes(bytes, 0, len)));
            }
            let (mut offset, mut each) = (0, 0);
            let buffer = Value::checked(q::JS_GetTypedArrayBuffer(ctx(), self.0, &mut offset, &mut len, &mut each))?;
            let mut total = 0;
            let bytes = q::JS_GetArrayBuffer(ctx(), &mut total, buffer.0);
            Ok(read(raw_bytes(bytes, offset, len.min(total.saturating_sub(offset)))))
        }
    }

    pub(crate) fn promise_state(&self) -> PromiseState {
        unsafe {
            let result = || Value(q::JS_PromiseResult(ctx(), self.0));
            match q::JS_PromiseState(ctx(), self.0) {
                q::JSPromiseStateEnum_JS_PROMISE_FULFILLED => PromiseState::Fulfilled(result()),
                q::JSPromiseStateEnum_JS_PROMISE_REJECTED => PromiseState::Rejected(result()),
                _ => PromiseState::Waits,
            }
        }
    }
}

unsafe fn raw_bytes<'a>(bytes: *const u8, offset: u32, len: u32) -> &'a [u8] {
    if bytes.is_null() || len == 0 {
        return &[];
    }
    unsafe { slice::from_raw_parts(bytes.add(offset as usize), len as usize) }
}

/// A module's bytecode, without its source text.
pub(crate) struct Bytecode(Vec<u8>);

/// Compiles a module, in a context that is thrown away with the source text and everything else that only the
/// compiler needs. An error is told in plain text, since it belongs to that context: (message, stack).
pub(crate) fn compile(name: &CStr, source: &CStr) -> Result<Bytecode, CompileError> {
    unsafe {
        let main = ctx();
        let scratch = q::JS_NewContextRaw(rt());
        if scratch.is_null() {
            return Err(CompileError::default());
        }
        CONTEXT.0.set(scratch);
        q::JS_AddIntrinsicEval(scratch);
        q::JS_AddIntrinsicRegExpCompiler(scratch);
        native::add_module(scratch);
        let flags = (q::JS_EVAL_TYPE_MODULE | q::JS_EVAL_FLAG_COMPILE_ONLY) as c_int;
        let module = q::JS_Eval(scratch, source.as_ptr(), source.count_bytes() as u32, name.as_ptr(), flags);
        let result = if q::JS_IsException(module) {
            Err(CompileError::take())
        } else {
            let mut len = 0;
            let flags = (q::JS_WRITE_OBJ_BYTECODE | q::JS_WRITE_OBJ_STRIP_SOURCE) as c_int;
            let bytes = q::JS_WriteObject(scratch, &mut len, module, flags);
            let copy = Bytecode(raw_bytes(bytes, 0, len).to_vec());
            q::js_free(scratch, bytes.cast());
            Ok(copy)
        };
        CONTEXT.0.set(main);
        q::JS_FreeContext(scratch);
        // The context and its module hold each other.
        q::JS_RunGC(rt());
        result
    }
}

/// Why a module does not compile.
#[derive(Default)]
pub(crate) struct CompileError {
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) stack: String,
}

impl CompileError {
    fn take() -> Self {
        let error = take_exception();
        let text = |key: &str| {
            let Ok(key) = Key::new(key) else { return Default::default() };
            let Ok(value) = error.get(key.name()) else {
                drop(take_exception());
                return Default::default();
            };
            match value.is_string().then(|| value.to_text()) {
                Some(Ok(text)) => text.get().into_owned(),
                _ => Default::default(),
            }
        };
        CompileError { name: text("name"), message: text("message"), stack: text("stack") }
    }
}

/// A module that has been evaluated as far as it goes by itself.
pub(crate) struct Module {
    /// What it exports.
    pub(crate) namespace: Value,
    /// Settled when the module's top level has run.
    pub(crate) evaluation: Value,
}

/// Runs a module's top level. Jobs that it leaves are the caller's to run.
pub(crate) fn evaluate(code: &Bytecode) -> Js<Module> {
    unsafe {
        let flags = q::JS_READ_OBJ_BYTECODE as c_int;
        let module = q::JS_ReadObject(ctx(), code.0.as_ptr(), code.0.len() as u32, flags);
        if q::JS_IsException(module) || q::JS_ResolveModule(ctx(), module) < 0 {
            return Err(Pending);
        }
        let definition = q::JS_VALUE_GET_PTR(module).cast();
        let evaluation = Value::checked(q::JS_EvalFunction(ctx(), module))?;
        let namespace = Value::checked(q::JS_GetModuleNamespace(ctx(), definition))?;
        Ok(Module { namespace, evaluation })
    }
}
