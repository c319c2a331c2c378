#compdef kildsvc
# zsh completion for kildsvc. `kildsvc completion zsh` prints it.
_kildsvc() {
    local line kind value about ret=1
    local -a found
    # The value of --option=value is completed by itself.
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    for line in "${(@f)$(${~words[1]} __complete $((CURRENT - 1)) "${(@Q)words}" 2>/dev/null)}"; do
        IFS=$'\t' read -r kind value about <<<"$line"
        case $kind in
        dir) _path_files -/ && ret=0 ;;
        file) _files && ret=0 ;;
        command) _command_names -e && ret=0 ;;
        plain) found+=("${value//:/\\:}${about:+:$about}") ;;
        esac
    done
    (( $#found )) && _describe kildsvc found && ret=0
    return ret
}
# Autoloaded from $fpath, or sourced.
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _kildsvc "$@"
else
    compdef _kildsvc kildsvc
fi
